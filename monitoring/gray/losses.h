/// Servers, or links between two machines, that lose some packets of a hundred: everything works, but each lost packet
/// costs a wait that is longer than many a request. The kernel of the sender counts what it had to send again. It does
/// so, too, when the receiver has no processor to take anything: beside such a lack only far more than that is a loss.
/// Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "monitoring/gray/party.h"
#include "monitoring/gray/recent_growth.h"

namespace kintsugi::gray {

/// A healthy network inside of a data centre loses one packet in ten thousand or fewer, and the loopback device none.
/// With one in a hundred, 500 segments lose five; fewer than five may be chance, or one full queue.
struct LossSettings {
  Duration over = std::chrono::seconds(40);  ///< segments of so much time count
  double raise = 0.003, clear = 0.001;       ///< shares of the segments that are lost
  uint64_t segments = 500;                   ///< segments below which nothing is said
  uint64_t lost = 5;                         ///< segments that must be lost,
  /// Moments of a minute in which segments must be lost: a queue that was full once loses many at once.
  size_t times = 4;
  /// So many times `raise` is too much for a lack of processor, which makes a kernel send little again.
  double beside_shortage = 2.5;
  size_t peers = 3;       ///< other servers with which the same machine must exchange enough
  double of_peers = 0.2;  ///< half of the peers lose no more than this part of what the link loses
};

/// What a process sent to one end.
struct Link {
  Party server;                     ///< the server whose port it is, whoever has sent
  std::string machine;              ///< address of the machine at the other end
  std::string source;               ///< tells this total from the others of the same server and machine
  uint64_t segments = 0, lost = 0;  ///< totals of the connections to that end
  TimePoint at{};                   ///< time of the report
  bool lacks_processor = false;     ///< one of its ends did within RecentGrowth::kWindow
};

class LossWatch {
 public:
  explicit LossWatch(LossSettings settings = {}) : settings_(settings) {}

  /// The links of all processes that report, once a second.
  void look(const std::vector<Link>& links, TimePoint now);
  /// One LOSSES verdict for each server that loses packets with half of the machines or more with which it exchanges
  /// enough; for others one for each such machine, which stands in `peer`.
  std::vector<proto::Verdict> alarms(TimePoint now) const;
  /// Returns the alarms that are withheld because a lack of processor explains them, one for each server and machine.
  std::vector<proto::Verdict> excused(TimePoint now) const;

 private:
  struct Source {
    RecentGrowth segments, lost;
  };
  struct Cell {  ///< between a server and a machine, both ways
    Party server;
    uint64_t segments = 0, lost = 0;
    size_t times = 0;
    bool lacks_processor = false;
    bool loses = false, excused = false;
    TimePoint since{};
    double share() const {
      return segments == 0 ? 0 : static_cast<double>(lost) / static_cast<double>(segments);
    }
  };
  using Key = std::pair<uint64_t, std::string>;  ///< process of the server, machine
  std::map<Key, Cell> sum(const std::vector<Link>& links, TimePoint now);
  proto::Verdict verdict_of(const Key& key, const Cell& cell, TimePoint now) const;
  /// The machine loses as much with most other servers, or exchanges too little with them to know.
  bool is_the_machines(const Key& key, double share, const std::map<Key, Cell>& cells) const;

  LossSettings settings_;
  std::map<std::string, Source> sources_;
  std::map<Key, Cell> cells_;
};

}  // namespace kintsugi::gray
