"""Answers of inspect: all servers (`servers`), the tools of one (`listing`), tools whole (`forms`).

Each is as full as its budget of tokens allows, and says what it leaves out. `plain` has the same for
programs.
"""
