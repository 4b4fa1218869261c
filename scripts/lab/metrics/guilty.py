"""Which metrics show a fault, by its kind, in which regions it happens, by its point, and which state or resource a method should name for it.

Fixed before the recordings that are judged by it: busy loops, deadlocks, locks and `request_seconds` came before seeds 16101 to 16301 were judged, states and
resources before seeds 17101 to 17103 were, the regions of a lock before 18201 and 18202."""

TRAFFIC = ["calls", "request_seconds", "read_bytes", "written_bytes", "link_bytes", "rx_", "tx_", "connections", "loop_lag"]
GUILTY = {"sockets": ["fds", "sockets_inuse", "rpc_connections"],
          "connections": ["fds", "sockets_inuse", "rpc_connections", "TcpCurrEstab"],
          "hog": ["cpu", "run_delay", "utime", "stime", "ctxt_switches", "loop_lag"],
          "hang": TRAFFIC, "delay": TRAFFIC, "deadlock": TRAFFIC, "lock": TRAFFIC,
          "busy": ["cpu", "utime", "run_delay", "ctxt_switches", *TRAFFIC],
          "memory": ["rss", "RssAnon", "VmData", "vsize", "resident_memory", "minflt", "page_faults"]}


def is_guilty(run, *names):
    return any(part in name for name in names for part in GUILTY[run["kind"]])

# Regions that are open when an execution passes the point. Connections from outside and a hog happen in none.
REGIONS = {"disk-write": ["chunkserver.append", "chunkserver.commit", "chunkserver.segment_append"],
           "serve-stream": ["serve.ReadChunk", "serve.WriteChunk", "serve.PartialSum"],
           "deadlock": ["serve.ReadChunk", "chunkserver.read_chunk"],
           # A change of metadata hangs before its batch begins, in the operation that makes it.
           "store-commit": [f"metaserver.{name}" for name in ["commit_batch", "commit_file", "make_directory", "make_inode", "set_attributes", "write_extents",
                                                              "remove", "rename", "abort_upload", "keep_session", "commit_repair", "commit_repair_of_manager",
                                                              "heartbeat"]]}


def guilty_regions(run):
    return REGIONS[run["point"]] if run["kind"] in ("sockets", "memory", "hang", "delay", "busy", "deadlock", "lock") else []


# States of the activity log in which an execution hangs, by the point.
STUCK_IN = {"disk-write": ["chunkserver.write_chunk", "chunkserver.commit"], "send-chunk": ["chunkserver.read_chunk"],
            "own-sum": ["chunkserver.partial_sum", "partial_sum.child_sum", "chunkserver.repair_chunk"]}
ON_DISK = ["chunkserver.write_chunk", "chunkserver.write_small_chunk", "chunkserver.commit", "chunkserver.read_chunk", "chunkserver.partial_sum",
           "chunkserver.repair_chunk", "chunkserver.delete_chunk"]
# Of methods that name a metric.
RESOURCE_OF = {"minflt": "memory", "read_bytes": "disk", "write_bytes": "disk"}
RESOURCES = {"hog": ["processor"], "busy": ["processor"], "memory": ["memory"], "slow-memory": ["memory"], "slow-disk": ["disk"]}


def names_cause(run, found):
    """The first finding at the faulty server says where the fault lies."""
    first = next((one for one in found if one.get("server") == run["server"] and "not_judged" not in one), {})
    if run["kind"] == "stopped":
        return bool(first)
    if run["kind"] in ("stuck", "deadlock", "spin", "hang"):
        return first.get("alone") == "none" or first.get("region") in STUCK_IN.get(run["point"], guilty_regions(run))
    resource = first.get("resource", RESOURCE_OF.get(first["metric"], "processor") if "metric" in first else None)
    return resource in RESOURCES.get(run["kind"], []) or run["kind"] == "slow-disk" and first.get("region") in ON_DISK
