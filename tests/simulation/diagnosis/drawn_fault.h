/// One fault in a simulated cluster, drawn from a seed: what goes wrong, at whom, and what a right answer names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/runtime/fault_points.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {

/// It knows nothing of the monitor, and the monitor nothing of it.
class DrawnFault {
 public:
  enum class Class : uint8_t {
    kPoint,    ///< at a fault point
    kOutside,  ///< done to a machine, a disk or the network
    kSlow,     ///< goes on, but slowly
  };
  /// How long a verdict is waited for, once something has gone wrong.
  static constexpr Duration kWatch = 25s, kWatchSlow = 120s;

  /// Draws it, but for the place: from now on it counts which places the load reaches. Nothing happens before begin().
  /// The cluster outlives it.
  DrawnFault(SimulatedCluster& cluster, uint64_t seed);

  /// Draws the place among those that were reached. False: there is none, and nothing happens.
  bool begin();
  bool happened() const;  ///< somebody came by
  void end();

  Class of_class() const { return class_; }
  Duration watch() const { return class_ == Class::kSlow ? kWatchSlow : kWatch; }
  const std::string& kind() const { return kind_; }      ///< "hang", "cut"
  const std::string& point() const { return point_; }    ///< empty: no fault point
  const std::string& detail() const { return detail_; }  ///< which passes of it
  uint64_t skip() const { return skip_; }                ///< how many of them come before
  const std::string& server() const { return server_; }
  const std::string& peer() const { return peer_; }  ///< the other end of a link; empty: no link
  /// Where in the code it first did something. None: nowhere yet, or it is no fault of a place, or it has ended.
  std::optional<runtime::FaultPoints::Met> met() const;

 private:
  struct Place;
  void draw_point();
  void count_places();
  std::vector<Place> places_of(SimNode& node) const;
  /// False: the load reached no place of the kind.
  bool draw_place();
  void draw_outside();
  void draw_slow();
  std::string some_machine();
  SimNode& node() const;

  SimulatedCluster& cluster_;
  SimRandom random_;
  Class class_ = Class::kPoint;
  std::string kind_, point_, detail_, server_, peer_;
  uint64_t skip_ = 0;
  size_t number_ = 0;  ///< of the server, unless it is the metaserver or the repair manager
  TimePoint counted_since_{};
  runtime::Fault fault_;
};

}  // namespace kintsugi::simulation
