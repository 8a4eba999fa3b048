"""A disk that can be full: a file system of limited size that only the processes led into it see.

It lies in memory, in a mount namespace that ends with its last process, so nothing is ever left mounted. Root may make
one, and others where the kernel lets them have a user namespace.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path

from tests.support.servers import ServerUnavailable

#: Makes the file system over a folder, with what is in the folder, and holds it until its input ends.
HOLD = """
set -e
mv "$1" "$1.before"
mkdir -m 700 "$1"
mount -t tmpfs -o "size=$2,mode=0700,uid=$3,gid=$4" disk "$1"
cp -a "$1.before/." "$1/"
rm -rf "$1.before"
echo ready
exec cat > /dev/null
"""
MIB = 2**20


class SmallDisk:
    """Lies over `folder`, with what the folder had and `free` bytes more, for processes started with `inside`.

    They run as `user`, or as who we are. Raises ServerUnavailable where no file system may be mounted.
    """

    def __init__(self, folder: Path, *, free: int = 48 * MIB, user: str | None = None) -> None:
        if not (shutil.which("unshare") and shutil.which("nsenter")):
            raise ServerUnavailable("a disk that can be full takes Linux with util-linux (unshare, nsenter)")
        self._ballast = folder / "ballast"
        self._owner = pwd.getpwnam(user) if user else pwd.getpwuid(os.getuid())
        self._is_root = os.geteuid() == 0
        used = sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))
        mine = () if self._is_root else ("--user", "--map-current-user", "--keep-caps")
        script = ("sh", "-c", HOLD, "disk", str(folder), str(used + free), *map(str, self._ids))
        self._holder = subprocess.Popen(
            ["unshare", "--mount", *mine, *script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline().strip() != "ready":
            _, said = self._holder.communicate(timeout=10)
            raise ServerUnavailable(
                "a disk that can be full takes the right to mount a file system, as root has it or whoever may make a "
                f"user namespace: {said.strip()[-200:]}"
            )

    def inside(self, *command: str) -> list[str]:
        """The command, run where the disk is; its process id stays that of the process started."""
        mine = ("--user", "--preserve-credentials")
        theirs = ("--setuid", str(self._ids[0]), "--setgid", str(self._ids[1]))
        return ["nsenter", "--mount", *(theirs if self._is_root else mine), "-t", str(self._holder.pid), *command]

    def fill(self) -> None:
        """Take all that is free, to the last block."""
        self._run("dd", "if=/dev/zero", f"of={self._ballast}", "bs=4k", "oflag=append", "conv=notrunc")

    def make_room(self) -> None:
        """Give back what was taken."""
        self._run("rm", "-f", str(self._ballast))

    def close(self) -> None:
        """Let go of it; it ends with the last process that is led into it."""
        self._holder.kill()
        self._holder.communicate()

    @property
    def _ids(self) -> tuple[int, int]:
        return self._owner.pw_uid, self._owner.pw_gid

    def _run(self, *command: str) -> None:
        subprocess.run(self.inside(*command), capture_output=True, timeout=60, check=False)
