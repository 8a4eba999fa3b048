"""The contract of every store, one class per operation.

A module of tests binds it to a store by importing everything from here and defining a fixture `store` that gives a
`Bench` whose stores are empty and keep ten dead letters.
"""

from .adding import TestAdd, TestAddAgain, TestCancel, TestGet
from .claiming import TestClaim, TestClaimNeedsALease, TestHeld, TestOrder, TestPause, TestWaitForJobs
from .delays import TestHasten, TestPulse
from .ends import TestUntilEnded
from .firing import TestFire, TestLastSlots
from .hostile import TestForeignJobs, TestHostileBytes
from .leases import TestExpired, TestExtend, TestHold, TestNow, TestRelease, TestWorkers
from .letters import TestDeadLetterCap, TestDeadLetters, TestDelete, TestLetterGroups, TestRedrive, TestRestore
from .limits import TestConcurrency, TestLimitsAndLostReplies, TestRate, TestWaitingForALimit
from .looking import TestCounts, TestPage, TestStanding
from .progress import TestProgress
from .sampling import TestGlance, TestSamples
from .settling import TestFence, TestJobsWithoutResult, TestReclaim, TestRequeue, TestResults, TestSettle
from .uniqueness import (
    TestDebounce,
    TestUnique,
    TestUniqueThroughEveryPath,
    TestUntilDone,
    TestUntilStarted,
    TestWindow,
)

__all__ = [
    "TestAdd",
    "TestAddAgain",
    "TestCancel",
    "TestClaim",
    "TestClaimNeedsALease",
    "TestConcurrency",
    "TestCounts",
    "TestDeadLetterCap",
    "TestDeadLetters",
    "TestDebounce",
    "TestDelete",
    "TestExpired",
    "TestExtend",
    "TestFence",
    "TestFire",
    "TestForeignJobs",
    "TestGet",
    "TestGlance",
    "TestHasten",
    "TestHeld",
    "TestHold",
    "TestHostileBytes",
    "TestJobsWithoutResult",
    "TestLastSlots",
    "TestLetterGroups",
    "TestLimitsAndLostReplies",
    "TestNow",
    "TestOrder",
    "TestPage",
    "TestPause",
    "TestProgress",
    "TestPulse",
    "TestRate",
    "TestReclaim",
    "TestRedrive",
    "TestRelease",
    "TestRequeue",
    "TestRestore",
    "TestResults",
    "TestSamples",
    "TestSettle",
    "TestStanding",
    "TestUnique",
    "TestUniqueThroughEveryPath",
    "TestUntilDone",
    "TestUntilEnded",
    "TestUntilStarted",
    "TestWaitForJobs",
    "TestWaitingForALimit",
    "TestWindow",
    "TestWorkers",
]
