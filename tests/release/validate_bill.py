"""Validate the CycloneDX files that are given, and print what is wrong with each; for `.venv-release`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

validator = JsonStrictValidator(SchemaVersion.V1_6)
wrong = [validator.validate_str(Path(file).read_text()) for file in sys.argv[1:]]
print(json.dumps([each and str(each) for each in wrong]))
