#include "tests/simulation/diagnosis/drawn_fault.h"

#include <algorithm>
#include <array>
#include <span>

namespace kintsugi::simulation {

using runtime::FaultAction;
using runtime::FaultPoint;

namespace {

/// Longer than it is watched.
constexpr Duration kLoop = 60s;
constexpr uint64_t kMostSkipped = 12;
constexpr const char* kMetaserver = "metaserver";
/// As verdicts call it.
constexpr const char* kRepairManager = "repair manager repair-0:7002";

}  // namespace

struct DrawnFault::Place {
  FaultPoint point;
  std::string detail;
  uint64_t passes;
};

namespace {

/// Nothing is drawn there: calls that wait on purpose for as long as nothing is new.
constexpr std::array kNotDrawn{"AwaitRecalls", "FetchRepairWork"};
/// Places at which somebody stops, is late or holds the loop.
constexpr std::array kStops{FaultPoint::kServeCall,   FaultPoint::kServeStream, FaultPoint::kSendChunk,
                            FaultPoint::kDiskRead,    FaultPoint::kDiskWrite,   FaultPoint::kDiskSync,
                            FaultPoint::kOwnSum,      FaultPoint::kForwardSum,  FaultPoint::kRebuild,
                            FaultPoint::kStoreCommit, FaultPoint::kStartRepair};
/// Answers for which a client waits for longer than it takes to be sure.
constexpr std::array kAnswers{"WriteSmallChunk", "RepairChunk", "AllocateStripe", "Stat", "RunRepair"};
/// Places at which a message can be lost.
constexpr std::array kMessages{FaultPoint::kAnswer, FaultPoint::kSendChunk};

struct Kind {
  const char* name;
  FaultAction action;
  std::span<const FaultPoint> points;
  uint64_t times;  ///< 0: all passes; a permit that is leaked once leaves others
};

constexpr std::array kWakes{FaultPoint::kWake}, kReleases{FaultPoint::kRelease},
    kCompletes{FaultPoint::kComplete}, kDeadlocks{FaultPoint::kDeadlock};
constexpr std::array kKinds{Kind{"hang", FaultAction::kHang, kStops, 1},
                            Kind{"cpu-loop", FaultAction::kCpuLoop, kStops, 1},
                            Kind{"lost-message", FaultAction::kDrop, kMessages, 1},
                            Kind{"lost-wakeup", FaultAction::kHang, kWakes, 1},
                            Kind{"leaked-permit", FaultAction::kHang, kReleases, 0},
                            Kind{"never-completed", FaultAction::kHang, kCompletes, 1},
                            Kind{"deadlock", FaultAction::kHang, kDeadlocks, 1}};
/// How often each is drawn, of twenty.
constexpr std::array kShares{8, 3, 3, 1, 2, 2, 1};

}  // namespace

DrawnFault::DrawnFault(SimulatedCluster& cluster, uint64_t seed)
    : cluster_(cluster), random_(seed), number_(random_.next() % cluster.chunkservers()) {
  server_ = SimulatedCluster::name(number_);
  const uint64_t share = random_.next() % 100;
  if (share < 55) {
    draw_point();
  } else if (share < 96) {
    draw_outside();
  } else {
    draw_slow();
  }
}

void DrawnFault::draw_point() {
  class_ = Class::kPoint;
  int left = static_cast<int>(random_.next() % 20);
  size_t kind = 0;
  while (left >= kShares[kind])
    left -= kShares[kind++];
  kind_ = kKinds[kind].name;
  const uint64_t role = random_.next() % 10;
  if (role < 3) server_ = kMetaserver;
  if (role == 3) server_ = kRepairManager;
  count_places();
}

void DrawnFault::count_places() {
  // Places are counted only while a fault is set, here one that never happens.
  runtime::Fault never{.point = FaultPoint::kHeartbeat, .action = FaultAction::kDelay, .skip = ~0ull};
  for (size_t number = 0; number < cluster_.chunkservers(); number++)
    KINTSUGI_ASSERT(cluster_.node(number).faults().set(never));
  KINTSUGI_ASSERT(cluster_.metaserver_node().faults().set(never));
  KINTSUGI_ASSERT(cluster_.repair_manager_node(0).faults().set(never));
  counted_since_ = cluster_.simulation().now();
}

std::vector<DrawnFault::Place> DrawnFault::places_of(SimNode& node) const {
  const Kind& kind = *std::ranges::find(kKinds, kind_, &Kind::name);
  const runtime::FaultPoints& faults = node.faults();
  std::vector<Place> places;
  for (const FaultPoint point : kind.points) {
    bool has_methods = false;
    for (const auto& [place, passes] : faults.methods()) {
      if (place.first != point) continue;
      has_methods = true;
      if (std::ranges::find(kNotDrawn, place.second) != kNotDrawn.end()) continue;
      if (point != FaultPoint::kAnswer || std::ranges::find(kAnswers, place.second) != kAnswers.end())
        places.push_back({point, place.second, passes});
    }
    const uint64_t passes = faults.passes()[static_cast<size_t>(point)];
    if (!has_methods && passes > 0) places.push_back({point, "", passes});
  }
  return places;
}

bool DrawnFault::draw_place() {
  std::vector<Place> places = places_of(node());
  // Not every role has places of every kind.
  if (places.empty()) {
    server_ = SimulatedCluster::name(number_);
    places = places_of(node());
  }
  for (size_t number = 0; number < cluster_.chunkservers(); number++)
    cluster_.node(number).faults().clear();
  cluster_.metaserver_node().faults().clear();
  cluster_.repair_manager_node(0).faults().clear();
  if (places.empty()) return false;
  const Place& place = places[random_.next() % places.size()];
  const Kind& kind = *std::ranges::find(kKinds, kind_, &Kind::name);
  point_ = name_of(place.point);
  detail_ = place.detail;
  // Of what is seldom passed, fewer passes are left alone: it is to happen within ten seconds, as a rule.
  const double counted = to_seconds(cluster_.simulation().now() - counted_since_);
  const auto passes_soon =
      static_cast<uint64_t>(10.0 * static_cast<double>(place.passes) / std::max(1.0, counted));
  skip_ = random_.next() % std::clamp<uint64_t>(passes_soon, 1, kMostSkipped);
  fault_ = {.point = place.point,
            .action = kind.action,
            .detail = detail_,
            .skip = skip_,
            .times = kind.times,
            .delay = kLoop};
  return true;
}

void DrawnFault::draw_outside() {
  class_ = Class::kOutside;
  static constexpr std::array kKinds{"stop", "stop", "power-loss", "isolate", "disk-hang", "cut"};
  kind_ = kKinds[random_.next() % kKinds.size()];
  if (kind_ == "cut") {
    server_ = some_machine();
    while (peer_.empty() || peer_ == server_ ||
           (server_.starts_with("client") && peer_.starts_with("client")))
      peer_ = some_machine();
  } else if (kind_ == "stop" && random_.next() % 10 == 0) {
    server_ = kMetaserver;
  }
}

void DrawnFault::draw_slow() {
  class_ = Class::kSlow;
  kind_ = random_.next() % 2 == 0 ? "slow-disk" : "slow-network";
}

std::string DrawnFault::some_machine() {
  const uint64_t which = random_.next() % (cluster_.chunkservers() + cluster_.clients() + 2);
  if (which < cluster_.chunkservers()) return SimulatedCluster::name(which);
  if (which < cluster_.chunkservers() + cluster_.clients())
    return SimulatedCluster::client_name(which - cluster_.chunkservers());
  return kMetaserver;
}

SimNode& DrawnFault::node() const {
  if (server_ == kRepairManager) return cluster_.repair_manager_node(0);
  return server_ == kMetaserver ? cluster_.metaserver_node() : cluster_.node(number_);
}

bool DrawnFault::begin() {
  if (class_ == Class::kPoint) {
    if (!draw_place()) return false;
    KINTSUGI_ASSERT(node().faults().set(fault_));
  } else if (kind_ == "stop") {
    node().stop_process();
  } else if (kind_ == "power-loss") {
    cluster_.crash_chunkserver(number_, Crash::kPower);
  } else if (kind_ == "isolate") {
    cluster_.isolate(number_);
  } else if (kind_ == "disk-hang") {
    cluster_.hang(number_);
  } else if (kind_ == "cut") {
    cluster_.network().cut(server_, peer_);
  } else if (kind_ == "slow-disk") {
    node().disk().set_slow(20);
  } else {
    cluster_.network().set_extra_latency(server_, 20ms);
  }
  return true;
}

bool DrawnFault::happened() const {
  return class_ != Class::kPoint || met();
}

std::optional<runtime::FaultPoints::Met> DrawnFault::met() const {
  if (class_ != Class::kPoint) return std::nullopt;
  const auto faults = node().faults().list();
  return faults.empty() ? std::nullopt : faults.front().first;
}

void DrawnFault::end() {
  cluster_.heal();
  // What hangs in a disk stays so: the machine is started anew.
  if (kind_ == "disk-hang") cluster_.crash_chunkserver(number_, Crash::kKill);
  if (!cluster_.running(number_)) cluster_.restart_all();
}

}  // namespace kintsugi::simulation
