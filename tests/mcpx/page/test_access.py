"""Codes that let in once, and the sessions that they become."""

import threading

import pytest

from mcpx.page.access import CODE_S, MAX_CODES, MAX_SESSIONS, SESSION_S, Access

PORT = 20_001


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def access(clock):
    ended = []
    made = Access(clock, on_end=ended.append)
    made.ended = ended
    return made


def test_a_code_lets_in_once(access):
    code = access.new_code()
    secret = access.redeem(code, PORT)
    assert secret is not None
    assert access.session(secret, PORT) is not None
    assert access.redeem(code, PORT) is None
    assert access.redeem("", PORT) is None
    assert access.redeem(secret, PORT) is None
    assert access.session(code, PORT) is None


def test_of_threads_that_race_for_a_code_one_is_let_in(access):
    code, let_in, start = access.new_code(), [], threading.Barrier(8)

    def race():
        start.wait()
        let_in.append(access.redeem(code, PORT))

    threads = [threading.Thread(target=race) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(list(filter(None, let_in))) == 1


def test_a_code_lasts_for_two_minutes(access, clock):
    first, second = access.new_code(), access.new_code()
    clock.now = CODE_S
    assert access.redeem(first, PORT) is not None
    clock.now = CODE_S + 0.1
    assert access.redeem(second, PORT) is None


def test_a_session_lasts_while_it_is_used(access, clock):
    secret = access.redeem(access.new_code(), PORT)
    for _ in range(3):
        clock.now += SESSION_S
        assert access.session(secret, PORT) is not None
    clock.now += SESSION_S
    assert access.go_on(access.session(secret, PORT))
    clock.now += SESSION_S + 1
    assert access.ended == []
    assert access.session(secret, PORT) is None
    assert len(access.ended) == 1


def test_a_session_that_was_ended_does_not_go_on(access):
    secret = access.redeem(access.new_code(), PORT)
    session = access.session(secret, PORT)
    access.end(session)
    access.end(session)
    assert access.ended == [session]
    assert access.session(secret, PORT) is None
    assert not access.go_on(session)


def test_the_session_that_was_used_last_stays_when_there_are_many(access):
    first, second = (access.redeem(access.new_code(), PORT) for _ in range(2))
    for _ in range(MAX_SESSIONS - 1):
        assert access.session(first, PORT) is not None
        access.redeem(access.new_code(), PORT)
    assert access.session(first, PORT) is not None
    assert access.session(second, PORT) is None
    assert len(access.ended) == 1


def test_no_more_codes_are_kept_than_that(access):
    codes = [access.new_code() for _ in range(MAX_CODES + 1)]
    assert access.redeem(codes[0], PORT) is None
    assert access.redeem(codes[1], PORT) is not None


def test_when_all_ends_codes_let_nobody_in_any_more(access):
    secret, code = access.redeem(access.new_code(), PORT), access.new_code()
    access.end_all()
    assert access.session(secret, PORT) is None
    assert access.redeem(code, PORT) is None
    assert len(access.ended) == 1


def test_no_secret_is_kept(access):
    code = access.new_code()
    secret = access.redeem(access.new_code(), PORT)
    kept = repr(vars(access))
    assert code not in kept
    assert secret not in kept
    assert len({access.new_code() for _ in range(50)}) == 50
    assert len(code) >= 43
