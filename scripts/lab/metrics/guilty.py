"""Which metrics show a fault, by its kind, and in which regions it happens, by its point.

Fixed before the recordings that are judged by it: busy loops, deadlocks, locks and `request_seconds` came before seeds 16101 to 16301 were judged, the regions
of a lock before 18201 and 18202."""

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
