"""The page of the daemon: what runs, what is called, what is saved, in a browser on this computer.

| module | holds |
|---|---|
| `page` | The page as a whole, as the composition root makes it |
| `access` | Who may see it: one-time codes from `mcpx ui`, and the sessions that they become |
| `memory` | The port and the sessions, kept for the next daemon |
| `guard` | What each request must bring, whatever it is for; and the headers of each response |
| `peers` | Whose process is at the other end, as far as the system says |
| `routes` | The addresses |
| `answers` | From a handler to JSON, and from what it raises to an error |
| `events` | The stream of server-sent events: the topics that a page follows |
| `leaving` | Ending what is done for a request when its browser has left |
| `cards`, `processes` | What is shown of each server, and what its processes use |
| `commands` | Commands of MCPX that are run for what a terminal does |
| `files` | The files of `static/` |
| `listener` | The page's own listener, where the daemon serves no HTTP on loopback |
| `views/` | A module for each view: its requests, and its topics |
| `server/`, `model/`, `setup/` | What stands behind the view of that name |
| `static/` | What runs in the browser: plain modules, and the libraries of `vendor/` as they were published |

Everything is made when it is first asked for: a daemon whose page nobody opens has imported none of it but
this package and `page`. A page that is open costs what its topics cost, and one that is closed costs nothing.
"""
