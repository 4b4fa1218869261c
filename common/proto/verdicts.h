/// Verdicts of diagnosis for people and programs: what `kintsugi diagnose`, the monitor's log and its console print.
#pragma once

#include <string>
#include <string_view>

#include "common/proto/sight.pb.h"

namespace kintsugi::proto {

/// So many names of processes, or operations, are listed in a verdict at most.
inline constexpr int kMostNames = 16;
/// So many ids of processes that wait are in a verdict at most.
inline constexpr int kMostWaiting = 256;

/// "stuck", "running", "silent", "not served", "device", "link", "deadlock", "client", "slow", "behaviour",
/// "resource", "host", "messages", "full", "pauses", "unreached", "losses", "errors", "clock".
std::string_view kind_name(Verdict::Kind kind);
/// Texts of reports may hold anything: a line for people keeps what is printable, and `most` bytes of it.
std::string printable(std::string_view text, size_t most = 512);
/// Adds it to `processes_waiting`, once; 0 is none. Beyond kMostWaiting it is left out.
void add_waiting(Verdict& verdict, uint64_t process);
/// Somebody waits for it, and has nothing to continue with meanwhile.
bool holds_up(const Verdict& verdict);
/// The metaserver does not answer: without it nothing can be stored or found.
bool is_metaserver_silent(const Verdict& verdict);
/// No repair manager is registered: what is lost is not repaired. (One that is silent beside others has a process.)
bool is_without_repairs(const Verdict& verdict);
/// It is on the disks of several servers of one machine: `server` is the machine, and there is no process.
bool is_machines_disks(const Verdict& verdict);
/// "certain", "likely", "unsure".
std::string_view confidence_name(Verdict::Confidence confidence);
/// "call", "receive", "send", "upstream", "join", "sibling", "resource", "disk", "store", "timer", "idle"; "runs" for
/// none.
std::string_view wait_name(WaitKind wait);

/// How long a resource lasts, "14 min".
std::string time_left(double seconds);

/// One line without a newline at its end: `server 4: chunkserver.partial_sum > disk.read (sdb), no progress for 41 s,
/// 10 tasks on 4 servers wait for it, repair 77; chunk_reader.cc:88; certain`. Bytes that are not printable are quoted.
std::string describe(const Verdict& verdict);
/// One line of a chain: `server 9: chunkserver.partial_sum, 41 s, receive from server 4 (tree_sum.cc:120)`.
std::string describe(const ChainLink& link);
/// `moves to it are held back for 40 s after failed moves`, or `moves to it from a, b are ...`; about whom is told
/// beside it.
std::string describe(const HeldBackMoves& moves);

/// One JSON object on one line: kind, server, process, chain, region, file, line, function, waiters, since and so on.
/// Times are in seconds.
std::string to_json(const Verdict& verdict);
/// The whole answer of a monitor as a JSON object, in lines that are indented by two spaces for each level.
std::string to_json(const DiagnoseResponse& response);

}  // namespace kintsugi::proto
