"""Migrations that databases from before the first release have with other comments."""

from types import MappingProxyType
from typing import Final

FORMER_CHECKSUMS: Final = MappingProxyType(
    {
        "0001_engine": "1baa6d3dd6616e380b5fabbcd0c32f39f072cf7c535b9e7026b23f4a5b0ae419",
        "0002_management": "86bfa206071dedb38636b9af3b23d8a25491ac936d72269b63b9ba976d9f4e86",
        "0003_access": "202d6c7e90c040324beb9009e578615702a9247be221b37568a1ce953b37bba3",
        "0004_counters": "8d151b778f78832ccc15a1ab7b9566e291b6462627c9c333ad89da7da9fe26c0",
        "0005_outbox": "47db3b749e757a46652f54f0dd16195accf5fceb8fe50a642c94c49fe9392b15",
        "0006_upkeep": "d1abb587d8709039809cbc72867bedc97e6e320bd11e996b866b3b8c28b5ab16",
        "0007_encryption": "486ede68ce5b8a7205b871834f216a0ac85412156c80ea94bb6f9ecc0411f921",
        "0008_schedules": "455e3550eb91a55d9e891cb795f818f80390276c3bfaea6f487fcff04315b3a8",
        "0009_relay": "9cd26853db8bc7ffe5185e30aa6287dc3b2b1eae3ff503fbc6b043eafc61cd22",
        "0010_pipeline": "e1ad5d9a6861830dfe164c156d0d72f14a1639775ef3e47407e5477d0ff0741f",
        "0011_archives": "74406e6726a72ed8e55dec145c358307c486a3d226a8f56b150fa996e14cf1e6",
        "0012_rollups": "cdf6fc863988ae4ae2e39d4a6b60c2a04da0433384db1909f77a4594caff7c42",
        "0013_pipelines": "4b90afc572617dd26e28e61a5ce1f9b88cca560bdbe9ca99e0f58c45a568f31e",
        "0014_replays": "ed6a3ecf19445d9890b819b94a5f35d4c9053e704e95fbe4fa2f72f9ea48fea0",
        "0015_renumberings": "20a0a3daf19a2c125118c51b3b7a7be83f67b487929ca7b58166f0f126d95b0a",
        "0016_results": "220c7fc2f567bfc451d414c205b16f49a94d7a78caf661a88fa1a79f23cf4595",
        "0017_workflows": "2170745d6573b8e2876f88989de2be13adee056c10c16895ad5ded6bdf88f720",
    }
)
"""Checksums of the same statements as of commit 2924e9e."""
