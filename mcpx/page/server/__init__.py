"""One server, as the page shows it: what it offers, trying that, acting on it, and following it.

| module | holds |
|---|---|
| `offers` | What it offers, in lists and whole; tools that are hidden from clients, too, and why |
| `trials` | Running a tool, reading a resource and getting a prompt, by the way of every call |
| `results` | What came of that, bounded for a browser |
| `actions` | Restart, switching on and off, signing in and out |
| `news` | The topic `server`: its card and its timeline as they change |
| `logs` | The topic `log`: what it says on standard error |

`mcpx.page.views.server` has the addresses.
"""
