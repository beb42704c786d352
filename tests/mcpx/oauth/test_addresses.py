"""Which addresses a server may lead a sign-in to."""

from __future__ import annotations

import pytest

from mcpx.oauth.addresses import Reach, is_loopback, may_lead, reach_of, reach_of_server


@pytest.mark.parametrize(
    ("address", "reach"),
    [
        ("8.8.8.8", Reach.PUBLIC),
        ("2606:4700::1111", Reach.PUBLIC),
        ("10.1.2.3", Reach.PRIVATE),
        ("172.16.0.1", Reach.PRIVATE),
        ("192.168.1.1", Reach.PRIVATE),
        ("100.64.0.1", Reach.PRIVATE),
        ("192.0.2.1", Reach.PRIVATE),
        ("fd00::1", Reach.PRIVATE),
        ("127.0.0.1", Reach.LOOPBACK),
        ("127.255.255.254", Reach.LOOPBACK),
        ("::1", Reach.LOOPBACK),
        ("::ffff:127.0.0.1", Reach.LOOPBACK),
        ("::ffff:10.0.0.1", Reach.PRIVATE),
        ("64:ff9b::7f00:1", Reach.LOOPBACK),
        ("64:ff9b::a9fe:a9fe", Reach.NOWHERE),
        ("2002:7f00:1::", Reach.LOOPBACK),
        ("169.254.169.254", Reach.NOWHERE),
        ("::ffff:169.254.169.254", Reach.NOWHERE),
        ("fe80::1%eth0", Reach.NOWHERE),
        ("0.0.0.0", Reach.NOWHERE),
        ("::", Reach.NOWHERE),
        ("224.0.0.1", Reach.NOWHERE),
        ("ff02::1", Reach.NOWHERE),
        ("example.com", Reach.NOWHERE),
    ],
)
def test_the_reach_of_an_address(address, reach):
    assert reach_of(address) is reach


def test_a_server_leads_to_what_is_no_nearer_than_itself():
    allowed = {
        Reach.PUBLIC: {Reach.PUBLIC},
        Reach.PRIVATE: {Reach.PUBLIC, Reach.PRIVATE},
        Reach.LOOPBACK: {Reach.PUBLIC, Reach.PRIVATE, Reach.LOOPBACK},
    }
    assert {one: {each for each in Reach if may_lead(one, each)} for one in allowed} == allowed


def test_a_server_with_a_public_address_too_is_public():
    assert reach_of_server(["10.0.0.1", "8.8.8.8"]) is Reach.PUBLIC
    assert reach_of_server(["10.0.0.1", "127.0.0.1"]) is Reach.PRIVATE
    assert reach_of_server(["169.254.169.254"]) is Reach.PUBLIC
    assert reach_of_server([]) is Reach.PUBLIC


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("app.localhost", True),
        ("127.0.0.2", True),
        ("::1", True),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_loopback_by_definition(host, expected):
    assert is_loopback(host) is expected
