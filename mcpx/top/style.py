"""How `mcpx top` looks: the sixteen colours of the terminal, or none; no colour says anything alone."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
Screen {
    background: ansi_default;
    color: ansi_default;
}
Screen > Static {
    height: auto;
}
#daemon, #curves, #rule {
    height: 1;
}
#servers {
    height: 1fr;
    background: ansi_default;
    scrollbar-size-vertical: 1;
    scrollbar-size-horizontal: 0;
    overflow-x: hidden;
}
#servers.-stale {
    text-style: dim;
}
#servers > .datatable--header, #servers:focus > .datatable--header {
    background: ansi_default;
    color: ansi_default;
    text-style: bold underline;
}
#servers > .datatable--cursor, #servers:focus > .datatable--cursor {
    background: ansi_default;
    color: ansi_default;
    text-style: reverse;
}
#servers > .datatable--hover {
    background: ansi_default;
}
#servers > .datatable--header-hover {
    background: ansi_default;
}
#chosen {
    height: 3;
}
#filter {
    display: none;
    height: 1;
    border: none;
    padding: 0;
    background: ansi_default;
    color: ansi_default;
}
#filter .input--cursor {
    background: ansi_default;
    color: ansi_default;
    text-style: reverse;
}
#filter .input--selection {
    background: ansi_default;
    color: ansi_default;
    text-style: reverse;
}
#filter .input--placeholder {
    color: ansi_default;
    text-style: dim;
}
#filter.-open, #filter:focus {
    display: block;
    border: none;
}
Footer, FooterKey {
    background: ansi_default;
    color: ansi_default;
}
FooterKey .footer-key--key {
    background: ansi_default;
    color: ansi_cyan;
    text-style: bold;
}
FooterKey .footer-key--description {
    background: ansi_default;
    color: ansi_default;
}
#servers, .body {
    scrollbar-background: ansi_default;
    scrollbar-background-hover: ansi_default;
    scrollbar-background-active: ansi_default;
    scrollbar-color: ansi_blue;
    scrollbar-color-hover: ansi_bright_blue;
    scrollbar-color-active: ansi_bright_blue;
    scrollbar-corner-color: ansi_default;
}
.title {
    height: 1;
    text-style: bold;
}
.body {
    height: 1fr;
    background: ansi_default;
    scrollbar-size-vertical: 1;
    scrollbar-size-horizontal: 1;
}
Log {
    overflow-x: auto;
    overflow-y: scroll;
}
.body > Static {
    height: auto;
}
Confirm {
    background: transparent;
    align: center middle;
}
Confirm > Vertical {
    width: 60;
    max-width: 100%;
    height: auto;
    border: round ansi_yellow;
    background: ansi_default;
    padding: 0 1;
}
Confirm Horizontal {
    height: auto;
    margin-top: 1;
}
Confirm Button {
    height: 1;
    min-width: 12;
    border: none;
    margin-right: 2;
    background: ansi_default;
    color: ansi_default;
}
Confirm Button:focus {
    text-style: reverse;
}
Toast {
    background: ansi_default;
    border: round ansi_blue;
    max-width: 70;
    max-height: 5;
}
Toast.-error {
    border: round ansi_red;
}
"""
