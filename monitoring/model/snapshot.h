/// All processes at one moment, and what the metaserver says of the servers' lives: what every detector reads.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "monitoring/model/process_view.h"

namespace kintsugi::model {

enum class Liveness : uint8_t { kAlive, kSuspect, kDead };

struct ServerLife {
  uint64_t server_id = 0;
  std::string address;
  std::string name;  ///< name for people
  Liveness liveness = Liveness::kAlive;
  bool in_maintenance = false;  ///< operators said that it may be away. Not kept in files
};

/// The metaserver as the monitor knows it by asking it, whether it reports or not.
struct MetaserverLife {
  std::string address;
  /// Since it answered the monitor last, or since the monitor began to ask. None: nobody asked, as in snapshots of
  /// older monitors.
  std::optional<Duration> unanswered;
  /// No repair manager is registered, as it says; empty: there is one, or nobody asked.
  std::string nobody_repairs;
  /// Room on the servers' disks and on its own, as it said last.
  proto::Room servers_room, metadata_room;
};

/// The views are shared with the Processes that made it, and show what is reported later, too: make one, analyse it,
/// drop it.
struct Snapshot {
  TimePoint taken{};
  int64_t wall_ns = 0;
  /// Ordered by process id; none of them is empty().
  std::vector<std::shared_ptr<const ProcessView>> processes;
  std::vector<ServerLife> servers;
  MetaserverLife metaserver;

  Duration silent(const ProcessView& view) const { return taken - view.arrived(); }
  /// Null when no process is called there, or the address is empty. When several are, the one that reported last.
  const ProcessView* at(std::string_view address) const;
  /// Its place in `processes`; -1: it has not reported, or is forgotten.
  int index_of(uint64_t process) const;
  const ServerLife* server(std::string_view address, uint64_t server_id) const;
};

/// The views of all processes that report: at most `kMaxProcesses`, those that are silent longest are forgotten first.
class Processes {
 public:
  static constexpr size_t kMaxProcesses = 20'000;

  /// Errors as ProcessView::accept has them. A process with a new id at the address or with the server id of a known
  /// one has taken its place, and the former is forgotten.
  Status accept(proto::SightReport report, TimePoint arrived);
  /// Forgets those that said that they end, and those that have been silent for longer than `silence`.
  void forget(TimePoint now, Duration ended_for, Duration silence);
  /// Null when it is unknown.
  const ProcessView* find(uint64_t process) const;
  size_t size() const { return views_.size(); }

  Snapshot snapshot(TimePoint now, int64_t wall_ns, std::vector<ServerLife> servers) const;

 private:
  std::map<uint64_t, std::shared_ptr<ProcessView>> views_;
  std::map<std::string, uint64_t> by_address_;
  std::map<uint64_t, uint64_t> by_server_;
};

/// A snapshot as bytes, for a file. Its times are kept as differences to `taken`.
std::string serialise(const Snapshot& snapshot);
/// kCorrupt when these are not the bytes of a snapshot. Processes in it whose state would be refused as a report are
/// left out.
Result<Snapshot> parse_snapshot(std::string_view bytes);

}  // namespace kintsugi::model
