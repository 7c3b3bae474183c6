"""Which address and interface lead to the other machines, where the machine's own name has a loopback address."""

from __future__ import annotations

import os
import socket
from argparse import Namespace
from typing import Any

import pytest

from distify.runtime import agent, interface
from distify.runtime.launcher import Launcher

TWO = Launcher(2, 4, 0, 2)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """One with the address 10.0.0.2 on eth0, whose name has the address 127.0.1.1."""
    hosts = {"me": "127.0.1.1", "host0": "10.0.0.1", "host1": "10.0.0.2", "10.0.0.1": "10.0.0.1"}

    def resolve(host: str, port: Any, **options: Any) -> Any:
        if host not in hosts:
            raise socket.gaierror(host)
        return [(socket.AF_INET, socket.SOCK_DGRAM, 17, "", (hosts[host], port or 0))]

    monkeypatch.setattr(socket, "gethostname", lambda: "me")
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(interface, "source_towards", {"host0": "10.0.0.2", "host1": "10.0.0.2", "me": "127.0.0.1"}.get)
    monkeypatch.setattr(interface, "interfaces", lambda: {"127.0.0.1": "lo", "10.0.0.2": "eth0"})
    monkeypatch.setenv("MASTER_ADDR", "host0")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "")
    return monkeypatch


def chosen(launcher: Launcher = TWO) -> str:
    interface.choose(launcher)
    return os.environ["GLOO_SOCKET_IFNAME"]


def test_gloo_takes_the_interface_that_leads_to_rank_0(machine: pytest.MonkeyPatch) -> None:
    assert chosen(Launcher(0, 4, 0, 4)) == ""  # one machine
    machine.setenv("MASTER_ADDR", "me")
    assert chosen() == ""
    machine.setenv("MASTER_ADDR", "nowhere")
    assert chosen() == ""
    machine.setenv("MASTER_ADDR", "host0")
    assert chosen() == "eth0"
    machine.setenv("GLOO_SOCKET_IFNAME", "ib0")  # what the user says
    assert chosen() == "ib0"


def test_a_name_that_others_can_reach_is_left_to_gloo(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(socket, "gethostname", lambda: "host1")
    assert chosen() == ""
    machine.setattr(socket, "gethostname", lambda: "unknown")
    assert chosen() == "eth0"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, ("10.0.0.2", "is_host=0")),
        ({"rdzv_endpoint": "host1:29500"}, ("10.0.0.2", "is_host=1")),
        ({"rdzv_endpoint": "host1", "rdzv_conf": "timeout=5"}, ("10.0.0.2", "timeout=5,is_host=1")),
        ({"rdzv_conf": "is_host=1", "local_addr": "a"}, ("a", "is_host=1")),
        ({"rdzv_backend": "static"}, (None, "")),
        ({"standalone": True}, (None, "")),
        ({"rdzv_endpoint": "me:29500"}, (None, "")),
        ({"rdzv_endpoint": ""}, (None, "")),
    ],
)
def test_machines_that_number_themselves(given: dict[str, Any], found: Any, machine: pytest.MonkeyPatch) -> None:
    options = {"rdzv_endpoint": "host0:29500", "rdzv_backend": "c10d", "rdzv_conf": "", "standalone": False}
    asked = Namespace(**{**options, "local_addr": None, **given})
    agent.meeting(asked)
    assert (asked.local_addr, asked.rdzv_conf) == found


def test_this_machine() -> None:
    assert interface.source_towards("127.0.0.1") == "127.0.0.1"
    assert interface.interfaces()["127.0.0.1"] == "lo"
    assert interface.leads_to("127.0.0.1", "127.0.0.1")
    assert interface.source_towards("no such host!") is None
