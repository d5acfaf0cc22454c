"""What is quoted about runs on a cluster."""

from statistics import median

from quoting import read_json, table


def cluster() -> str:
    """What Ray costs, and what it takes to plan and drive a large sweep."""
    found = read_json("cluster-cpu.json")
    took, planned, flat = found["overhead"], found["planning"], found["flat"]
    packs, start = (median(run[name] for run in took["runs"]["ray"]) for name in ("packs", "start_seconds"))
    few, local = median(run["packs"] for run in took["runs"]["local"]), took["local_seconds"]
    rows = {
        f"{took['members']} members by the local engine, in {few:.0f} packs": f"{local:.0f} s",
        f"the same by Ray, in {packs:.0f} packs": f"{took['ray_seconds']:.0f} s",
        "overhead of Ray": f"**{took['overhead']:.1%}**",
        "start of the cluster and of its workers, not in it": f"{start:.0f} s",
        f"{planned['members']:,} members, from the file to packs": f"{planned['seconds']:.1f} s",
        "memory of the process at its peak": f"{planned['peak_gib']:.2f} GiB",
        f"memory of the driver after 400 and after {flat['packs']:,} packs": (
            f"{flat['driver_mib'][1]:.0f} and {flat['driver_mib'][-1]:.0f} MiB"
        ),
        "trivial packs a second, driver and two workers on the same cores": f"{flat['packs_per_second']:.0f}",
    }
    same = "All errors are the same to the last digit." if took["same_errors"] else "Some errors differ."
    return f"{table(('what', 'measured'), rows.items())}\n\n{same} ({found['machine']}.)"


def ten_million() -> str:
    """10^7 members on paper, from what was measured of 10^5."""
    found = read_json("cluster-cpu.json")
    planned, rate = found["planning"], found["flat"]["packs_per_second"]
    shards = 10**7 // planned["members"]
    pack_kib = 512 * planned["row_bytes_in_flight"] / 2**10
    rows = {
        f"one sweep of 10^7: memory of its trials, {planned['bytes_a_member']:,.0f} bytes each": (
            f"{planned['bytes_a_member'] * 1e7 / 2**30:.0f} GiB in the driver"
        ),
        f"{shards} sweeps of {planned['members']:,}: to plan each": (
            f"{planned['seconds']:.1f} s, {planned['peak_gib']:.2f} GiB"
        ),
        "packs of a minute that one driver can hand out": f"for {60 * rate:,.0f} workers",
        "object store: a pack of 512 rows on its way": f"{pack_kib:,.0f} KiB",
        "disk: all rows": f"{planned['row_bytes_on_disk'] * 1e7 / 2**30:.1f} GiB or more",
        "1,000 cores, 10 s of one core for each member": f"{1e7 * 10 / 1000 / 3600:.0f} hours",
    }
    return table(("what", "comes to"), rows.items())
