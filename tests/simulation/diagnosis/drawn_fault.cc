#include "tests/simulation/diagnosis/drawn_fault.h"

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
  const char* detail;
  Where where;
};

const std::vector<DrawnFault::Place>& DrawnFault::places() {
  static const std::vector<Place> all{
      {FaultPoint::kServeStream, "WriteChunk", Where::kChunkserver},
      {FaultPoint::kServeStream, "ReadChunk", Where::kChunkserver},
      {FaultPoint::kServeStream, "PartialSum", Where::kChunkserver},
      {FaultPoint::kServeCall, "RepairChunk", Where::kChunkserver},
      {FaultPoint::kServeCall, "WriteSmallChunk", Where::kChunkserver},
      {FaultPoint::kSendChunk, "", Where::kChunkserver},
      {FaultPoint::kDiskRead, "", Where::kChunkserver},
      {FaultPoint::kDiskWrite, "", Where::kChunkserver},
      {FaultPoint::kDiskSync, "", Where::kChunkserver},
      {FaultPoint::kOwnSum, "", Where::kChunkserver},
      {FaultPoint::kForwardSum, "", Where::kChunkserver},
      {FaultPoint::kRebuild, "", Where::kChunkserver},
      {FaultPoint::kStoreCommit, "", Where::kMetaserver},
      {FaultPoint::kServeCall, "AllocateStripe", Where::kMetaserver},
      {FaultPoint::kServeCall, "Stat", Where::kMetaserver},
      {FaultPoint::kStartRepair, "", Where::kRepairManager},
  };
  return all;
}

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
  const uint64_t what = random_.next() % 5;
  skip_ = random_.next() % kMostSkipped;
  const Place* place = &places()[random_.next() % places().size()];
  if (what == 4) {
    // A message of the callee's is lost: an answer, or a frame of what is read.
    static const std::vector<Place> kLost{{FaultPoint::kAnswer, "WriteSmallChunk", Where::kChunkserver},
                                          {FaultPoint::kAnswer, "RepairChunk", Where::kChunkserver},
                                          {FaultPoint::kSendChunk, "", Where::kChunkserver},
                                          {FaultPoint::kAnswer, "AllocateStripe", Where::kMetaserver},
                                          {FaultPoint::kAnswer, "Stat", Where::kMetaserver},
                                          {FaultPoint::kAnswer, "RunRepair", Where::kMetaserver}};
    place = &kLost[random_.next() % kLost.size()];
  }
  kind_ = what == 4 ? "lost-message" : what == 3 ? "cpu-loop" : "hang";
  point_ = name_of(place->point);
  detail_ = place->detail;
  if (place->where == Where::kMetaserver) server_ = kMetaserver;
  if (place->where == Where::kRepairManager) server_ = kRepairManager;
  fault_ = {.point = place->point,
            .action = what == 4   ? FaultAction::kDrop
                      : what == 3 ? FaultAction::kCpuLoop
                                  : FaultAction::kHang,
            .detail = detail_,
            .skip = skip_,
            .times = 1,
            .delay = kLoop};
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

void DrawnFault::begin() {
  if (class_ == Class::kPoint) {
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
