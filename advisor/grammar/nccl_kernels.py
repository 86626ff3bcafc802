"""Names of NCCL's GPU kernels, as profilers print them.

    2.4 to 2.7    ncclAllReduceRingLLKernel_sum_f16(ncclColl)
    2.8 to 2.18   ncclKernel_AllReduce_RING_LL_Sum_half(ncclWorkElem)
    2.19 on       ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>), ncclDevKernel_SendRecv
    2.27 on       ncclSymDevKernel_…, ncclSymkDevKernel_… where symmetric memory is used

A name says the family of the collective, not how it ran: one kernel is built for each family, that of the LL
protocol, and the others are called through it; from 2.19 the operation is always `Sum`, and everything but Tree
is called RING. A grouped launch bears the name of one of its collectives.
"""

from __future__ import annotations

import re

FAMILIES = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
    "AlltoAll": "alltoall",
    "SendRecv": "sendrecv",
}
_KERNEL = re.compile(
    r"nccl(?:Symk?DevKernel_|DevKernel_|Kernel_)?"
    r"(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|AlltoAll|SendRecv)"
)


def is_nccl_kernel(name: str) -> bool:
    """Whether a GPU kernel is one of NCCL's, or of RCCL, which keeps the names."""
    return "nccl" in name


def family(name: str) -> str | None:
    """`all_reduce`, `sendrecv`, … of a kernel's name; None for those that serve any (`ncclDevKernel_Generic`).

    >>> family("ncclAllReduceRingLLKernel_sum_f16(ncclColl)"), family("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t")
    ('all_reduce', 'sendrecv')
    >>> family("ncclSymkDevKernel_ReduceScatter_LDMC"), family("ncclDevKernel_Generic(ncclDevKernelArgs…)")
    ('reduce_scatter', None)
    """
    found = _KERNEL.search(name)
    return FAMILIES[found[1]] if found else None
