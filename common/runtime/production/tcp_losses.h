/// How many segments the kernel sent for this process, and how many of them were lost on the way, by who is at the other
/// end of the connections.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace kintsugi::runtime {

/// Totals of all connections to one end, those that were closed included. They never fall.
struct LinkLosses {
  /// What was dialled ("10.0.0.7:7100"), or the address without a port of a host whose connections were accepted.
  std::string end;
  uint64_t segments = 0;  ///< segments with data that were sent, also those that were sent again
  /// Segments that were sent again, without those of which the peer said that it had got them before.
  uint64_t lost = 0;
};

/// Thread-safe: the event loop opens and closes connections, another thread reads. Costs nothing between the two.
class TcpLosses {
 public:
  static constexpr size_t kMostOpen = 2'048;  ///< open connections that are counted at most
  static constexpr size_t kMostEnds = 1'024;  ///< ends to which losses are counted at most

  /// REQUIRES: closed() is called before the descriptor is.
  void opened(int descriptor, std::string end);
  /// Does nothing for one that is not counted.
  void closed(int descriptor);
  /// Those that lost something first, then those to which most was sent.
  std::vector<LinkLosses> read(size_t at_most);

 private:
  struct Totals {
    uint64_t segments = 0, lost = 0;
  };
  struct Open {
    Totals* of = nullptr;  ///< the entry of ends_ that counts the connection; entries are never removed
    Totals counted;        ///< counts of this connection that are in the entry
  };
  static void count(int descriptor, Open& open);

  std::mutex mutex_;
  std::map<int, Open> open_;  ///< key: descriptor
  std::map<std::string, Totals> ends_;
};

}  // namespace kintsugi::runtime
