"""The network interface by which the processes of several machines reach each other.

gloo, and torchrun's c10d rendezvous, tell the others the address that this machine's own name has. Debian and Ubuntu
write that name beside 127.0.1.1 into /etc/hosts, containers beside 127.0.0.1: each machine then tells the others to
connect to themselves ("Gloo connectFullMesh failed … Connection refused, remote=[127.0.0.1]"). The address from which
packets go to the machine of rank 0 is one that it can answer.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress

from .launcher import Launcher

SIOCGIFADDR = 0x8915  # Linux: the IPv4 address of an interface


def choose(launcher: Launcher) -> None:
    """Let gloo take the interface that leads to rank 0, where the machine's own name leads nowhere."""
    one = launcher.local_size == launcher.world_size
    if one or os.environ.get("GLOO_SOCKET_IFNAME") or not name_is_local():
        return
    address = source_towards(os.environ["MASTER_ADDR"])
    found = None if address is None or is_local(address) else interfaces().get(address)
    if found is not None:
        os.environ["GLOO_SOCKET_IFNAME"] = found


def name_is_local() -> bool:
    """Whether this machine's own name has an address that only it can reach, or none."""
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return True
    return not found or is_local(str(found[0][4][0]))  # gloo takes the first


def is_local(address: str) -> bool:
    """Whether an address is a loopback one."""
    return address.startswith("127.") or address == "::1"


def source_towards(host: str) -> str | None:
    """The address of this machine from which packets go to a host; `None` if it can't be told. Nothing is sent."""
    with suppress(OSError):
        for family, kind, protocol, _, target in socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM):
            with suppress(OSError), socket.socket(family, kind, protocol) as probe:
                probe.connect(target)
                return str(probe.getsockname()[0])
    return None


def leads_to(host: str, address: str) -> bool:
    """Whether a name or address of a host stands for an address."""
    with suppress(OSError):
        return address in {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
    return False


def interfaces() -> Mapping[str, str]:
    """Names of this machine's interfaces by their addresses; empty where the system doesn't tell as Linux does."""
    found: dict[str, str] = {}
    try:
        import fcntl
    except ImportError:
        return found
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has no address
                answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                found[socket.inet_ntoa(answer[20:24])] = name
    with suppress(OSError), open("/proc/net/if_inet6", encoding="ascii") as table:
        for line in table:
            number, *_, name = line.split()
            found[socket.inet_ntop(socket.AF_INET6, bytes.fromhex(number))] = name
    return found
