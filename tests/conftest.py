"""For all tests: what MCPX remembers goes into a folder of the test run, never into the user's own."""

from __future__ import annotations

import os
import tempfile

STATE = tempfile.TemporaryDirectory(prefix="mcpx-tests-")
os.environ["MCPX_STATE_DIR"] = STATE.name
