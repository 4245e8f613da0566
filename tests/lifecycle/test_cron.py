"""Cron: instants of the wall clock, what a change of the clock by its zone does to them, and a clock that is set."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from lifecycle import (
    Cron,
    CronUnavailable,
    FixedRate,
    InvalidSchedule,
    MissedTicks,
    OperationalError,
    Schedule,
    bounded_catch_up,
)
from lifecycle._cron import MOST_COUNTED
from lifecycle._trigger import Last, Now

from ._schedules import Job, Wall, driven, utc, virtual

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3600.0
DAY = 24 * HOUR


async def runs_of(cron: Cron, start: datetime, seconds: float, **options: Any) -> list[str]:
    """When a schedule runs, by the wall clock in the zone of `start`."""
    wall = Wall(start)
    job = Job(wall=wall)
    async with driven(Schedule("job", job, cron, wall_clock=wall, **options)):
        await trio.sleep(seconds)
    return job.times


# -- expressions


@pytest.mark.row("runtime:R73")
@virtual
async def test_a_schedule_runs_at_the_times_of_its_expression() -> None:
    times = await runs_of(Cron("15 9,17 * * MON-FRI"), utc(2026, 7, 3, 12), 4 * DAY)  # from a Friday
    assert times == ["03 17:15:00", "06 09:15:00", "06 17:15:00", "07 09:15:00"]
    times = await runs_of(Cron("*/20 0 12 3 7 *"), utc(2026, 7, 3, 11, 59, 59), 60)
    assert times == ["03 12:00:00", "03 12:00:20", "03 12:00:40"]


@pytest.mark.row("runtime:R73")
@virtual
async def test_the_times_are_those_of_the_zone() -> None:
    tokyo = ZoneInfo("Asia/Tokyo")
    for zone in ("Asia/Tokyo", tokyo, timezone(timedelta(hours=9))):
        start = utc(2026, 7, 3, 12)  # 21:00 in Tokyo
        times = await runs_of(Cron("0 3 * * *", zone), start.astimezone(tokyo), DAY)
        assert times == ["04 03:00:00"]


@pytest.mark.parametrize(
    ("expression", "mistake"),
    [
        ("61 * * * *", "minute"),
        ("* * * *", "fields"),
        ("0 0 30 2 *", "day-of-month"),
        ("", "fields"),
        (None, "string"),
        ("s3cr3t * * * *", "minute"),
    ],
)
def test_an_expression_that_cannot_be_understood_is_refused(expression: Any, mistake: str) -> None:
    with pytest.raises(InvalidSchedule, match=mistake) as raised:
        Cron(expression)
    assert "s3cr3t" not in str(raised.value)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "", 3])
def test_a_zone_that_is_not_known_is_refused(zone: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"zone is no time zone that is known here.*tzdata"):
        Cron("* * * * *", zone)
    with pytest.raises(InvalidSchedule, match="jitter"):
        Cron("* * * * *", jitter=-1)


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(CronUnavailable, match=r"cronsim.*pip install 'tenure\[cron\]'") as raised:
        Cron("* * * * *")
    assert isinstance(raised.value, OperationalError)
    assert FixedRate(1).period == 1  # the other triggers do not need it


@virtual
async def test_a_wall_clock_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="wall_clock"):
        await Schedule("job", Job(), Cron("* * * * *"), wall_clock=lambda: datetime(2026, 1, 1)).run()


# -- a clock that its zone changes: on 29 March 2026 at 2:00 to 3:00, on 25 October at 3:00 back to 2:00


@pytest.mark.row("runtime:R73")
@virtual
async def test_in_spring_a_fixed_time_that_is_left_out_is_made_up_for_at_the_end_of_the_gap() -> None:
    start = datetime(2026, 3, 28, 1, tzinfo=BERLIN)
    times = await runs_of(Cron("30 2 * * *", BERLIN), start, 2.5 * DAY)
    assert times == ["28 02:30:00", "29 03:00:00", "30 02:30:00"]
    times = await runs_of(Cron("0,15,30 2 * * *", BERLIN), start + timedelta(hours=12), DAY)
    assert times == ["29 03:00:00"]  # once for all of them
    times = await runs_of(Cron("30 59 2 29 3 *", BERLIN), start, 2 * DAY)
    assert times == ["29 03:00:00"]  # with seconds it is the same
    times = await runs_of(Cron("0 2,3 * * *", BERLIN), start + timedelta(hours=12), DAY)
    assert times == ["29 03:00:00"]  # two times that fall together


@pytest.mark.row("runtime:R73")
@virtual
async def test_in_autumn_a_fixed_time_that_comes_twice_counts_the_first_time() -> None:
    start = datetime(2026, 10, 24, 12, tzinfo=BERLIN)
    wall = Wall(start)
    job = Job(wall=wall)
    async with driven(Schedule("job", job, Cron("30 2 * * *", BERLIN), wall_clock=wall)):
        await trio.sleep(2 * DAY)
    assert job.times == ["25 02:30:00", "26 02:30:00"]
    assert job.starts == [14.5 * HOUR, 39.5 * HOUR]  # the first of the two; then a day of 25 hours
    times = await runs_of(Cron("15 30 2 25 10 *", BERLIN), start, DAY)
    assert times == ["25 02:30:15"]


@pytest.mark.row("runtime:R73")
@pytest.mark.parametrize(
    "start", [datetime(2026, 3, 28, 23, 45, tzinfo=BERLIN), datetime(2026, 10, 24, 23, 45, tzinfo=BERLIN)]
)
@virtual
async def test_a_repeating_job_follows_real_time_through_a_change(start: datetime) -> None:
    for expression, period in [("0 * * * *", HOUR), ("*/15 * * * *", HOUR / 4), ("*/30 */10 * * * *", 30.0)]:
        wall = Wall(start)
        job = Job(wall=wall)
        async with driven(Schedule("job", job, Cron(expression, BERLIN), wall_clock=wall)):
            await trio.sleep(6 * HOUR + 1)
        gaps = {after - before for before, after in zip(job.starts, job.starts[1:], strict=False)}
        assert gaps <= {period, 570.0}, expression  # the last one: from ..:00:30 to ..:10:00
        assert len(job.starts) == 6 * HOUR / (period if period > 30 else 300)


@pytest.mark.row("runtime:R73")
def test_a_repeated_hour_counts_also_where_the_next_match_is_a_year_away() -> None:
    cron = Cron("*/30 2 25 6,10 *", BERLIN)
    found = [datetime(2026, 10, 25, 2, 20, tzinfo=BERLIN).timestamp()]
    for _ in range(4):
        found.append(cron.after(found[-1]))
    assert [f"{datetime.fromtimestamp(at, BERLIN):%Y-%m-%d %H:%M %Z}" for at in found[1:]] == [
        "2026-10-25 02:30 CEST",
        "2026-10-25 02:00 CET",
        "2026-10-25 02:30 CET",
        "2027-06-25 02:00 CEST",
    ]


zones = st.sampled_from(
    [
        ("Europe/Berlin", utc(2026, 3, 28)),
        ("Europe/Berlin", utc(2026, 10, 24)),
        ("America/New_York", utc(2026, 10, 31)),
        ("Australia/Lord_Howe", utc(2026, 4, 4)),  # half an hour
        ("Australia/Lord_Howe", utc(2026, 10, 3)),
        ("America/Sao_Paulo", utc(2018, 11, 3)),  # at midnight
        ("America/Sao_Paulo", utc(2018, 2, 17)),
        ("Pacific/Apia", utc(2011, 12, 29)),  # a day left out
        ("Asia/Kathmandu", utc(2026, 1, 1)),
    ]
)
fields = st.tuples(
    st.sampled_from(["*", "*/7", "*/30", "0", "5,59", "15-20"]),
    st.sampled_from(["*", "*/2", "0-3", "2", "0,23", "1,2,3"]),
)


@pytest.mark.row("runtime:R73")
@settings(max_examples=60)
@given(place=zones, expression=fields, minute=st.integers(0, 1439))
def test_every_tick_around_a_change_is_the_one_that_the_rule_says(
    place: tuple[str, datetime], expression: tuple[str, str], minute: int
) -> None:
    zone, day = ZoneInfo(place[0]), place[1]
    since = day + timedelta(minutes=minute)
    cron = Cron(f"{expression[0]} {expression[1]} * * *", zone)
    found: list[datetime] = []
    at = since.timestamp()
    while (at := cron.after(at)) <= (since + timedelta(days=2)).timestamp():
        found.append(datetime.fromtimestamp(at, UTC))
    assert found == by_the_minute(expression, zone, since, timedelta(days=2))


def by_the_minute(expression: tuple[str, str], zone: ZoneInfo, since: datetime, length: timedelta) -> list[datetime]:
    """The rule of `Cron` by brute force: look at each minute."""
    minutes, hours = numbers(expression[0], 60), numbers(expression[1], 24)
    fixed = "*" not in expression[0][:1] + expression[1][:1]
    begin = since - timedelta(days=2)
    found: list[datetime] = []
    done: set[datetime] = set()
    before = begin.astimezone(zone).replace(tzinfo=None)
    for number in range(1, 4 * 1440 + 1):
        at = begin + timedelta(minutes=number)
        local = at.astimezone(zone).replace(tzinfo=None)
        wanted = [local]
        if fixed and local > before:  # with those that a gap has left out
            wanted += [before + timedelta(minutes=n) for n in range(1, int((local - before).total_seconds()) // 60)]
        before = local
        due = [w for w in wanted if w.minute in minutes and w.hour in hours and not (fixed and w in done)]
        if due and since < at <= since + length:
            found.append(at)
        done.update(due)
    return found


def numbers(field: str, end: int) -> set[int]:
    if "-" in field:
        first, last = field.split("-")
        return set(range(int(first), int(last) + 1))
    if field.startswith("*"):
        return set(range(0, end, int(field[2:] or 1)))
    return {int(part) for part in field.split(",")}


# -- a wall clock that is set


@pytest.mark.row("runtime:R73")
@pytest.mark.parametrize(("missed", "runs"), [("skip", 1), ("coalesce_latest", 2), (bounded_catch_up(3), 4)])
@virtual
async def test_set_forward_the_missed_ticks_are_one_run_and_what_the_policy_says(
    missed: MissedTicks, runs: int
) -> None:
    wall = Wall(utc(2026, 7, 3, 12, 0, 30))
    job = Job(wall=wall)
    async with driven(Schedule("job", job, Cron("0 * * * *"), missed=missed, wall_clock=wall)) as schedule:
        await trio.sleep(10)
        wall.step(hours=9)
        await trio.sleep(31)  # it is noticed by then
        assert job.times[0][:5] == "03 21"
        assert len(job.times) == runs
        assert schedule.snapshot().skips == 9 - runs
        await trio.sleep(HOUR)
    assert job.times[runs:] == ["03 22:00:00"]


@pytest.mark.row("runtime:R73")
@virtual
async def test_set_forward_by_years_there_is_no_storm_and_the_next_tick_comes() -> None:
    wall = Wall(utc(1970, 1, 1))
    job = Job(wall=wall)
    async with driven(Schedule("job", job, Cron("* * * * *"), wall_clock=wall)) as schedule:
        await trio.sleep(70)
        wall.step(days=20_000)
        await trio.sleep(200)
        assert schedule.snapshot().skips == MOST_COUNTED - 1
    assert [start for start in job.starts if start > 100] == [120, 180, 240]
    assert len(job.starts) == 5


@pytest.mark.row("runtime:R73")
@pytest.mark.parametrize("back", [{"seconds": 10}, {"minutes": 50}, {"hours": 2, "minutes": 59}])
@virtual
async def test_set_back_a_fixed_time_is_not_run_twice(back: dict[str, float]) -> None:
    wall = Wall(utc(2026, 7, 3, 2, 59))
    job = Job(wall=wall)
    async with driven(Schedule("job", job, Cron("0 3 * * *"), wall_clock=wall)):
        await trio.sleep(65)
        wall.step(**{unit: -amount for unit, amount in back.items()})
        await trio.sleep(DAY + 3 * HOUR)
    assert job.times == ["03 03:00:00", "04 03:00:00"]


@pytest.mark.row("runtime:R73")
@virtual
async def test_set_back_by_much_the_clock_was_wrong_and_no_run_of_the_new_time_is_lost() -> None:
    wall = Wall(utc(2027, 7, 3, 2, 59))
    job = Job(wall=wall)
    async with driven(Schedule("job", job, Cron("0 3 * * *"), wall_clock=wall)):
        await trio.sleep(65)
        wall.step(days=-365)
        await trio.sleep(2 * DAY)
    assert job.times == ["03 03:00:00", "04 03:00:00", "05 03:00:00"]


@pytest.mark.row("runtime:R73")
@virtual
async def test_set_back_a_repeating_job_soon_follows_the_new_time() -> None:
    wall = Wall(utc(2026, 7, 3, 12, 0, 30))
    job = Job(wall=wall)
    async with driven(Schedule("job", job, Cron("*/10 * * * *"), wall_clock=wall)):
        await trio.sleep(1200)  # 12:10, 12:20
        wall.step(minutes=-45)  # 11:35:30
        await trio.sleep(600)
        assert job.times[2:] == ["03 11:40:00"]
        wall.step(seconds=-30 - 5 * 60)  # 11:40:00, by less than a minute behind the last tick
        await trio.sleep(900)
    assert job.times == ["03 12:10:00", "03 12:20:00", "03 11:40:00", "03 11:50:00"]


@pytest.mark.row("runtime:R73")
@settings(max_examples=50)
@given(steps=st.lists(st.tuples(st.floats(0, 7200), st.floats(-5, 5)), max_size=60))
def test_a_clock_that_is_adjusted_a_little_all_the_time_runs_each_tick_once(steps: list[tuple[float, float]]) -> None:
    cron = Cron("*/10 * * * *")
    last = Last(Now(0.0, 1.0e9))
    time, wall, ticks = 0.0, 1.0e9, []
    first = cron.after(wall)
    for passed, adjusted in steps:
        time += passed
        wall += passed + adjusted
        look = cron.look(last, Now(time, wall), "job", 0)
        ticks += [look.due]
        last = attrs.evolve(last, tick=look.tick)
        assert time < look.wake <= time + 30
        reached = max(wall, last.tick.wall if last.tick is not None else 0)
        assert sum(ticks) == max(0, int((reached - first) // 600) + 1)


# -- the rest of a schedule


@pytest.mark.row("runtime:R73")
@virtual
async def test_jitter_run_now_pause_and_change_of_a_cron_schedule() -> None:
    wall = Wall(utc(2026, 7, 3, 12, 0, 30))
    job = Job(wall=wall)
    schedule = Schedule("job", job, Cron("0 * * * *", jitter=600), wall_clock=wall)
    async with driven(schedule):
        await trio.sleep(3 * HOUR + 600)
        assert [time[:6] for time in job.times] == ["03 13:", "03 14:", "03 15:"]
        minutes = [time[6:] for time in job.times]
        assert "00:00" <= min(minutes) < max(minutes) <= "10:00"
        assert len(set(minutes)) == 3
        schedule.run_now()
        await trio.sleep(1)
        assert job.times[3:] == ["03 15:10:30"]
        schedule.pause()
        await trio.sleep(2 * HOUR)
        schedule.resume()
        assert schedule.snapshot().passed_over == 2
        schedule.reconfigure(attrs.evolve(schedule.settings, trigger=Cron("*/30 * * * *")))
        await trio.sleep(HOUR)
    assert job.times[4:] == ["03 17:30:00", "03 18:00:00"]
    assert schedule.snapshot().mode == "cron"


@pytest.mark.row("runtime:R73")
@virtual
async def test_from_and_to_other_triggers() -> None:
    wall = Wall(utc(2026, 7, 3, 12, 10))
    job = Job(wall=wall)
    schedule = Schedule("job", job, Cron("0 * * * *"), wall_clock=wall)
    async with driven(schedule):
        await trio.sleep(HOUR)  # 13:00
        schedule.reconfigure(attrs.evolve(schedule.settings, trigger=FixedRate(0.75 * HOUR)))
        await trio.sleep(HOUR)  # 13:45
        schedule.reconfigure(attrs.evolve(schedule.settings, trigger=Cron("15 * * * *")))
        await trio.sleep(HOUR)
    assert job.times == ["03 13:00:00", "03 13:45:00", "03 14:15:00"]
