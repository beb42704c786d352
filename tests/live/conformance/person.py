"""The browser of the suite's sign-ins, and whoever sits before it: follows the redirects and agrees to all.

Run as `python person.py URL`, as `BROWSER` names it.
"""

from __future__ import annotations

import sys
import urllib.request

if __name__ == "__main__":
    with urllib.request.urlopen(sys.argv[1], timeout=20) as answer:
        answer.read()
