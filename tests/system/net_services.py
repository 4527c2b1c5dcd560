# SPDX-License-Identifier: Apache-2.0
"""The internet of net_world.py with what real clients talk to: net_services.py FOLDER. It runs in a network and a mount namespace of
its own, and finds in FOLDER what the servers need (packages and repositories are made by filtered_clients.py).

Names NAME.test are web servers (web_servers.mjs), ssh (git.test), a server of mail, which speaks first, and postgres.
"""

import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import net_world

ADDRESSES = net_world.NAMES["world.test"]
NAMES = ("apt", "db", "git", "mail", "npm", "pypi", "web")
NOBODY = 65534
POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


def mail(sock):
    sock.sendall(b"220 mail.test\r\n")
    while line := sock.recv(1000):
        sock.sendall(b"221 bye\r\n" if line.upper().startswith(b"QUIT") else b"250 good\r\n")


def ssh(folder):
    """Whoever has the key is the user `git`."""
    home = folder / "home"
    passwd = folder / "passwd"
    passwd.write_text(Path("/etc/passwd").read_text() + f"git:x:{NOBODY}:{NOBODY}::{home}:/bin/sh\n")
    subprocess.run(["mount", "--bind", passwd, "/etc/passwd"], check=True)
    subprocess.Popen(["dropbear", "-F", "-s", "-p", "22", "-r", folder / "host_key"], stdin=subprocess.DEVNULL)


def postgres(folder):
    programs = POSTGRES[-1].parent
    data = folder / "postgres"
    data.mkdir()
    for name in ("key.pem", "cert.pem"):
        shutil.copy(folder / name, data.parent / f"postgres-{name}")
        os.chmod(data.parent / f"postgres-{name}", 0o600)
        os.chown(data.parent / f"postgres-{name}", NOBODY, NOBODY)
    os.chown(data, NOBODY, NOBODY)
    options = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "stdout": subprocess.DEVNULL, "cwd": data}
    subprocess.run([programs / "initdb", "-D", data, "-A", "trust", "-N", "-U", "postgres"], check=True, **options)
    with open(data / "pg_hba.conf", "a", encoding="ascii") as file:
        file.write("hostssl all all all trust\n")
    settings = {"listen_addresses": "*", "unix_socket_directories": "", "ssl": "on", "fsync": "off",
                "ssl_key_file": f"{folder}/postgres-key.pem", "ssl_cert_file": f"{folder}/postgres-cert.pem"}
    subprocess.Popen([programs / "postgres", "-D", data, *(f"--{name}={value}" for name, value in settings.items())],
                     stderr=open(folder / "postgres-log", "wb"), **options)


def main():
    # Where everybody may go, unlike to the folders of tests.
    folder = Path("/mnt")
    subprocess.run(["mount", "--bind", sys.argv[1], folder], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    net_world.NAMES.update({f"{name}.test": ADDRESSES for name in NAMES})
    for function, *arguments in ((net_world.tcp, 25, mail), (net_world.udp, "52.95.113.53", 53, net_world.dns_udp)):
        threading.Thread(target=function, args=arguments, daemon=True).start()
    ssh(folder)
    web = subprocess.Popen(["node", Path(__file__).with_name("web_servers.mjs"), folder], stdout=subprocess.PIPE)
    if POSTGRES:
        postgres(folder)
    assert web.stdout.readline() == b"ready\n"
    while POSTGRES:
        try:
            socket.create_connection(("127.0.0.1", 5432)).close()
            break
        except OSError:
            threading.Event().wait(0.05)
    print("ready", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
