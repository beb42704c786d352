"""A keychain for tests: a file of JSON that `MCPX_TEST_KEYCHAIN` names. Every use is noted in it."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import keyring.errors
from keyring.backend import KeyringBackend


class FileKeychain(KeyringBackend):
    priority = 1

    def _read(self):
        path = Path(os.environ["MCPX_TEST_KEYCHAIN"])
        kept = json.loads(path.read_text()) if path.exists() else {}
        if kept.get("locked"):
            raise keyring.errors.KeyringLocked
        if kept.get("hangs"):
            signal.pause()
        return kept

    def _write(self, kept):
        Path(os.environ["MCPX_TEST_KEYCHAIN"]).write_text(json.dumps(kept))

    def get_password(self, service, username):
        return self._read().get(f"{service}/{username}")

    def set_password(self, service, username, password):
        self._write(self._read() | {f"{service}/{username}": password, "argv": sys.argv})

    def delete_password(self, service, username):
        kept = self._read()
        del kept[f"{service}/{username}"]
        self._write(kept)
