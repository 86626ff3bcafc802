"""GPU products: what NVLink gives them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from advisor.data import table


@dataclass(slots=True, frozen=True)
class Product:
    """One product. links, link_gbyte_s: of one GPU, one direction; 0 links: PCIe only.

    switch_gpus: size of the boards that join them by NVSwitch; ring_gbyte_s, nvls_gbyte_s: typical all_reduce busbw
    of a full board without and with NVLink SHARP, None where not published.
    """

    id: str
    nvlink_generation: int
    links: int
    link_gbyte_s: float
    switch_gpus: int | None = None
    ring_gbyte_s: float | None = None
    nvls_gbyte_s: float | None = None

    @property
    def nvlink_gbyte_s(self) -> float:
        """One direction of all links of one GPU."""
        return self.links * self.link_gbyte_s

    @property
    def reduces_in_switch(self) -> bool:
        """NVLink SHARP exists: Hopper and later behind NVSwitch."""
        return self.nvlink_generation >= 4 and self.switch_gpus is not None


def product(name: str | None) -> Product | None:
    """The product of a printed GPU name (`NVIDIA H100 80GB HBM3`), None where it is not in the table."""
    if not name:
        return None
    for row in table("products"):
        if re.search(row["match"], name, re.IGNORECASE):
            return Product(
                row["id"], row["nvlink_generation"], row["links"], float(row["link_gbyte_s"]), row.get("switch_gpus"),
                row.get("ring_gbyte_s"), row.get("nvls_gbyte_s"),
            )  # fmt: skip
    return None
