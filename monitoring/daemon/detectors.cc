#include "monitoring/daemon/detectors.h"

#include "monitoring/daemon/absence_detector.h"
#include "monitoring/daemon/behaviour_detector.h"
#include "monitoring/daemon/foresight.h"
#include "monitoring/daemon/gray_detector.h"
#include "monitoring/daemon/room_detector.h"
#include "monitoring/daemon/similarity_detectors.h"
#include "monitoring/daemon/window_detector.h"
#include "monitoring/progress/engine.h"

namespace kintsugi::monitoring {
namespace {

/// Finds the culprits that hold operations up.
class ProgressDetector final : public Detector {
 public:
  std::string_view name() const override { return "progress"; }
  std::vector<proto::Verdict> examine(const model::Snapshot& snapshot) override {
    return engine_.diagnose(snapshot);
  }
  bool wants_everything(uint64_t process) const override { return engine_.wants_everything(process); }
  std::vector<uint64_t> wants_to_know_of(uint64_t process) const override {
    return engine_.wants_to_know_of(process);
  }

 private:
  progress::Engine engine_;
};

}  // namespace

std::vector<std::unique_ptr<Detector>> make_detectors(bool behaviour, const Foresight* foresight) {
  std::vector<std::unique_ptr<Detector>> detectors;
  detectors.push_back(std::make_unique<ProgressDetector>());
  detectors.push_back(std::make_unique<AbsenceDetector>());
  detectors.push_back(std::make_unique<RoomDetector>());
  detectors.push_back(std::make_unique<GrayDetector>());
  detectors.push_back(std::make_unique<FailSlowDetector>());
  detectors.push_back(std::make_unique<MemoryDetector>());
  detectors.push_back(std::make_unique<ComplaintDetector>());
  detectors.push_back(std::make_unique<WorkerDetector>());
  detectors.push_back(std::make_unique<WindowDetector>());
  if (foresight != nullptr) detectors.push_back(std::make_unique<ForesightDetector>(*foresight));
  if (behaviour) detectors.push_back(std::make_unique<BehaviourDetector>());
  return detectors;
}

}  // namespace kintsugi::monitoring
