from __future__ import annotations

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import _errors
from actors._errors import (
    CAUSES_KEPT,
    ActorCrashed,
    ActorError,
    ActorStopped,
    AlreadyReplied,
    AskCycle,
    ChildEnded,
    EndedBeforeReady,
    ExtraMissing,
    HandlerDoubled,
    HandlerMissing,
    InvalidBackoff,
    InvalidIntensity,
    InvalidMailbox,
    InvalidRoute,
    InvalidSetting,
    InvalidStrategy,
    MailboxFull,
    MessageDropped,
    MessageRefused,
    NameInvalid,
    NameTaken,
    NoMembers,
    NoReply,
    NoSuchActor,
    NotABody,
    NotInHand,
    RestartLimitExceeded,
    StartFailed,
    StashFull,
    SystemStopped,
    TimerInvalid,
    TooManyTimers,
    WouldDeadlock,
    WrongSpecimen,
    WrongThread,
)
from actors._message import Exit


class Get:
    pass


class Add:
    pass


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


EXAMPLES: list[tuple[ActorError, list[str]]] = [
    (MailboxFull("/a", 3, 2), ["/a", "limit 3", "2 messages", "send()"]),
    (MessageDropped("/a", "drop_oldest"), ["/a", "drop_oldest", "ask again"]),
    (MessageRefused("/a", Get), ["/a", "Get", "handler"]),
    (StashFull("/a", 5), ["/a", "5", "unstash_all()"]),
    (ActorStopped("/a"), ["/a", "is stopping", "watch()"]),
    (ActorStopped("/a", Exit("killed")), ["/a", "has ended (killed)", "spawn"]),
    (ActorStopped("/a", Exit("failed", ValueError("bad"))), ["/a", "failed: ValueError: bad"]),
    (ActorCrashed("/a", Get(), ValueError("bad")), ["/a", "Get", "ValueError: bad", "ask again only"]),
    (ActorCrashed("/a", Get(), Mute()), ["/a", "(Mute)"]),
    (NoReply("/a", Get()), ["/a", "Get", "reply to every request"]),
    (AlreadyReplied("/a", Get()), ["/a", "Get", "exactly once"]),
    (NotInHand("/a", Get), ["/a", "Get", "later()"]),
    (WrongThread("/a"), ["/a", "another thread", "trio.from_thread.run_sync"]),
    (EndedBeforeReady("/a"), ["/a", "returned before it was ready", "async for"]),
    (NotABody("<function f>", "an object of int"), ["<function f>", "an object of int", "give an Actor class"]),
    (AskCycle(("/a", "/b", "/a")), ["/a -> /b -> /a", "tell()"]),
    (WouldDeadlock("/a", "ref.stop()"), ["/a", "ref.stop()", "context.stop()"]),
    (NameTaken("b", "/a"), ["'b'", "/a", "choose another"]),
    (NameInvalid("b/c", "it holds a slash"), ["'b/c'", "it holds a slash"]),
    (NoSuchActor("/a"), ["/a", "spawn"]),
    (WrongSpecimen("/a", "Till", "Account"), ["/a", "Till", "Account", "look it up"]),
    (StartFailed("/a", ValueError("bad")), ["/a", "ValueError: bad", "mend"]),
    (SystemStopped("shop"), ["shop", "inside its block"]),
    (HandlerMissing(Mute, (Get, Add)), ["Mute", "Get, Add", "@handles"]),
    (HandlerDoubled(Mute, Get, ("one", "two")), ["Mute", "Get", "one and two", "keep one"]),
    (ChildEnded("till"), ["till", "transient"]),
    (RestartLimitExceeded("/a", 3, 5.0, [ValueError()]), ["/a", "more than 3 restarts within 5 s", "mend"]),
    (InvalidBackoff("initial is -1"), ["initial is -1"]),
    (InvalidIntensity("within is 0"), ["within is 0"]),
    (InvalidStrategy("kind is x"), ["kind is x"]),
    (InvalidMailbox("limit is 0"), ["limit is 0"]),
    (InvalidRoute("the key is None"), ["the key is None"]),
    (TimerInvalid("a delay is -1"), ["a delay is -1"]),
    (TooManyTimers("/a", 7), ["/a", "7", "cancel()"]),
    (ExtraMissing("The tracer", "opentelemetry-api", "otel"), ["The tracer", "opentelemetry-api", "tenure[otel]"]),
    (NoMembers("workers"), ["workers", "join"]),
]


@pytest.mark.parametrize(("error", "words"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_an_error_says_what_happened_to_what_and_what_to_do(error: ActorError, words: list[str]) -> None:
    for word in words:
        assert word in str(error)
    assert type(error).__name__ in traceback.format_exception_only(error)[0]


def test_every_error_class_has_an_example() -> None:
    classes = {cls for cls in vars(_errors).values() if isinstance(cls, type) and issubclass(cls, ActorError)}
    assert classes == {type(error) for error, _ in EXAMPLES} | {ActorError, InvalidSetting}


def test_errors_are_told_apart_by_identity_and_can_be_raised_with_a_cause() -> None:
    one, other = MailboxFull("/a", 3, 2), MailboxFull("/a", 3, 2)
    assert one != other
    assert len({one, other}) == 2
    cause = KeyError("x")
    with pytest.raises(MailboxFull) as raised:
        raise one from cause
    assert (raised.value.name, raised.value.limit, raised.value.depth) == ("/a", 3, 2)
    assert raised.value.__cause__ is cause


def test_a_crash_and_a_failed_start_carry_their_cause_as_python_does() -> None:
    cause = ValueError("bad")
    for error in (ActorCrashed("/a", Get(), cause), StartFailed("/a", cause)):
        assert error.cause is cause
        assert error.__cause__ is cause


def test_a_message_is_named_by_its_class_not_shown() -> None:
    assert "secret" not in str(NoReply("/a", "secret"))
    assert "str" in str(NoReply("/a", "secret"))


def test_restart_limit_is_an_exception_group_whose_parts_keep_the_facts() -> None:
    causes = [ValueError("a"), KeyError("b"), ValueError("c")]
    error = RestartLimitExceeded("/sup", 2, 5.0, causes, omitted=4)
    assert error.exceptions == tuple(causes)
    matched, rest = error.split(ValueError)
    assert isinstance(matched, RestartLimitExceeded)
    assert isinstance(rest, RestartLimitExceeded)
    assert matched.exceptions == (causes[0], causes[2])
    assert rest.exceptions == (causes[1],)
    for part in (matched, rest):
        assert (part.supervisor, part.max_restarts, part.within, part.omitted) == ("/sup", 2, 5.0, 4)
        assert str(part).startswith("supervisor /sup gave up")
    assert error.subgroup(OSError) is None
    assert error.subgroup(RestartLimitExceeded) is error


def test_restart_limit_works_with_except_star() -> None:
    handled: list[object] = []

    def handle_half() -> None:
        try:
            raise RestartLimitExceeded("/sup", 1, 5.0, [ValueError("a"), KeyError("b")])
        except* ValueError as group:
            handled.extend(group.exceptions)

    with pytest.raises(RestartLimitExceeded) as raised:
        handle_half()
    assert [type(exc) for exc in handled] == [ValueError]
    assert [type(exc) for exc in raised.value.exceptions] == [KeyError]
    assert raised.value.supervisor == "/sup"


def test_restart_limit_keeps_traceback_and_cause_in_its_parts() -> None:
    with pytest.raises(RestartLimitExceeded) as raised:
        raise RestartLimitExceeded("/sup", 1, 5.0, [ValueError("a"), KeyError("b")]) from OSError("c")
    part = raised.value.subgroup(ValueError)
    assert part is not None
    assert part.__traceback__ is raised.value.__traceback__
    assert part.__cause__ is raised.value.__cause__


def test_restart_limit_derived_with_foreign_members_stays_a_group() -> None:
    error = RestartLimitExceeded("/sup", 1, 5.0, [ValueError("a")])
    group = error.derive([KeyboardInterrupt()])
    assert type(group) is BaseExceptionGroup
    assert group.message == error.message


def test_restart_limit_without_causes_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="non-empty"):
        RestartLimitExceeded("/sup", 1, 5.0, [])


def test_flat_takes_nested_limits_apart_and_leaves_other_groups_whole() -> None:
    one, two, three, four, five = ValueError(1), KeyError(2), OSError(3), TypeError(4), RuntimeError(5)
    whole = ExceptionGroup("of the user", [three])
    inner = RestartLimitExceeded.flat("/a/b", 1, 2.0, [one, two])
    wrapped = ExceptionGroup("a nursery", [ExceptionGroup("another", [inner]), four])
    error = RestartLimitExceeded.flat("/a", 3, 5.0, [wrapped, whole, five])
    assert error.exceptions == (one, two, four, whole, five)
    assert (error.supervisor, error.omitted) == ("/a", 0)


def test_flat_takes_a_chain_apart_that_is_deeper_than_the_stack() -> None:
    error = RestartLimitExceeded("/0", 0, 1.0, [ValueError("deep")])
    for level in range(1, 4096):
        error = RestartLimitExceeded(f"/{level}", 0, 1.0, [error])
    flat = RestartLimitExceeded.flat("/top", 0, 1.0, [error])
    assert [str(cause) for cause in flat.exceptions] == ["deep"]


def test_flat_is_bounded_and_counts_what_it_leaves_out() -> None:
    causes = [ValueError(number) for number in range(CAUSES_KEPT + 10)]
    inner = RestartLimitExceeded.flat("/a/b", 3, 5.0, causes)
    assert inner.exceptions == tuple(causes[10:])
    assert inner.omitted == 10
    last = KeyError("last")
    outer = RestartLimitExceeded.flat("/a", 3, 5.0, [inner, last])
    assert outer.exceptions == (*causes[11:], last)
    assert outer.omitted == 11
    assert "11 older causes" in str(outer)
    assert RestartLimitExceeded.flat("/a", len(causes) - 1, 5.0, causes).exceptions == tuple(causes)


def _trees() -> st.SearchStrategy[Exception]:
    leaves = st.integers().map(ValueError)
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, min_size=1, max_size=4).map(lambda e: RestartLimitExceeded("/s", 1, 1.0, e)),
    )


def _leaves(exc: BaseException) -> list[BaseException]:
    if isinstance(exc, RestartLimitExceeded):
        return [leaf for member in exc.exceptions for leaf in _leaves(member)]
    return [exc]


@given(st.lists(_trees(), min_size=1, max_size=5))
def test_flat_holds_the_newest_leaves_in_order(causes: list[Exception]) -> None:
    leaves = [leaf for cause in causes for leaf in _leaves(cause)]
    error = RestartLimitExceeded.flat("/top", 3, 5.0, causes)
    assert list(error.exceptions) == leaves[-CAUSES_KEPT:]
    assert error.omitted == len(leaves) - len(error.exceptions)
