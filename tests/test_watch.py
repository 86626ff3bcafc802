"""`advisor watch`: rates from two readings of sysfs, the verdict of a window, and what is lacking said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.cli import main
from advisor.collect import live
from advisor.collect.live import Window, watch_window
from advisor.diagnosis import diagnose
from advisor.facts import FactStore, NicRate, RdmaCounters
from advisor.read.unpack import Document
from advisor.render.watch import lines, record


def write(path: Path, text: str | int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """One ACTIVE 100 Gb/s RDMA port, one that is down, one interface of 10 Gb/s, a bridge."""
    for device, state in (("mlx5_0", "4: ACTIVE"), ("mlx5_1", "1: DOWN")):
        port = tmp_path / "infiniband" / device / "ports" / "1"
        write(port / "state", state)
        write(port / "rate", "100 Gb/sec (4X EDR)")
        write(port / "link_layer", "InfiniBand")
        write(port / "counters" / "port_rcv_data", 0)
        write(port / "counters" / "port_xmit_data", 1000)
    for name in ("eth0", "br0"):
        write(tmp_path / "net" / name / "speed", 10000)
        write(tmp_path / "net" / name / "statistics" / "rx_bytes", 5)
        write(tmp_path / "net" / name / "statistics" / "tx_bytes", 5)
    (tmp_path / "net" / "eth0" / "device").mkdir()
    return tmp_path


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.collect.live.shutil.which", lambda _: None)


def ticking() -> object:
    times = iter((100.0, 110.0))
    return lambda: next(times)


def test_rates_of_active_ports(sysfs: Path, no_gpu: None) -> None:
    def traffic(_: float) -> None:
        write(sysfs / "infiniband/mlx5_0/ports/1/counters/port_xmit_data", 1000 + 28_750_000_000)
        write(sysfs / "net/eth0/statistics/rx_bytes", 5 + 1_250_000_000)

    window = watch_window(10, sys=sysfs, wait=traffic, clock=ticking())  # type: ignore[arg-type]
    store = FactStore(window.facts)
    (counters,) = store.of(RdmaCounters)
    assert (counters.device, counters.xmit_bytes_delta, counters.interval_s) == ("mlx5_0", 115_000_000_000, 10.0)
    (rate,) = store.of(NicRate)
    assert (rate.interface, rate.busy_gbit_s, rate.use_share) == ("eth0", 1.0, 0.1)
    assert window.lacks == ["watch-lacks-gpu", "watch-lacks-log"]


def test_a_counter_that_was_reset_says_nothing(sysfs: Path, no_gpu: None) -> None:
    def reset(_: float) -> None:
        write(sysfs / "infiniband/mlx5_0/ports/1/counters/port_xmit_data", 3)

    window = watch_window(10, sys=sysfs, wait=reset, clock=ticking())  # type: ignore[arg-type]
    assert not FactStore(window.facts).of(RdmaCounters)


DMON = "# gpu    pwr  gtemp     sm    mem   mclk   pclk\n# Idx      W      C      %      %    MHz    MHz\n" + "".join(
    f"    {gpu}    {power}     40    {sm}      2   2619   1600\n"
    for power, sm in ((124, 0), (124, 0), (126, 100), (126, 100), (127, 100), (126, 99))
    for gpu in (0, 1)
)


def test_a_full_port_beside_waiting_gpus_is_network_bound(sysfs: Path, no_gpu: None) -> None:
    def traffic(_: float) -> None:
        write(sysfs / "infiniband/mlx5_0/ports/1/counters/port_xmit_data", 1000 + 28_750_000_000)

    window = watch_window(10, sys=sysfs, wait=traffic, clock=ticking())  # type: ignore[arg-type]
    host = window.facts[0].host
    outcome = diagnose([Document("dmon.txt", DMON, host=host)], window.facts)
    reading = record(window.seconds, outcome.store, outcome.diagnosis, window.lacks)
    assert reading["causes"][0] == {
        "id": "network-bound", "confidence": "likely", "title": outcome.diagnosis.causes[0].title,
    }  # fmt: skip
    text = "\n".join(lines(reading, 100))
    assert "mlx5_0/1" in text
    assert "92.00 Gb/s of 100" in text
    assert max(map(len, text.splitlines())) <= 100


def test_once_as_json(sysfs: Path, no_gpu: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                      capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    log = tmp_path / "train.log"
    log.write_text("".join(f"step {i} loss 2.3 step_time 250.0 ms samples/s 2048.0\n" for i in range(20)))

    def window(seconds: int, path: Path | None) -> Window:
        return watch_window(seconds, path, sys=sysfs, wait=lambda _: None)

    monkeypatch.setattr(live, "watch_window", window)
    assert main(["watch", "--once", "--json", "--interval", "5", "--log", str(log)]) == 0
    reading = json.loads(capsys.readouterr().out)
    assert reading["steps"][0]["median_s"] == 0.25
    assert reading["verdict"] == "cannot-tell"
    assert len(reading["lacks"]) == 1


def test_a_log_that_is_not_there_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "--once", "--log", "/nowhere/x.log"]) == 2
    assert "/nowhere/x.log" in capsys.readouterr().err
