/// A monitor on its machine. Nobody looks at its console.
#pragma once

#include "monitoring/daemon/monitor.h"
#include "monitoring/sight/recorder.h"
#include "tests/simulation/cluster/started_program.h"

namespace kintsugi::simulation {

class MonitorProgram final : public StartedProgram {
 public:
  MonitorProgram(const runtime::Runtime& runtime, monitoring::MonitorOptions options,
                 const rpc::Secret& secret, uint64_t recorder_seed,
                 std::vector<std::unique_ptr<monitoring::Detector>> detectors = {})
      : StartedProgram(runtime), recorder_(runtime.clock, recorder_seed) {
    options.recorder = &recorder_;
    monitor_ = std::make_unique<monitoring::Monitor>(this->runtime(), std::move(options), secret,
                                                     std::move(detectors));
  }

  const monitoring::Monitor& monitor() const { return *monitor_; }
  const sight::Recorder& recorder() const override { return recorder_; }
  sight::Reporting who() const override { return {.kind = "monitor", .name = "monitor"}; }

 protected:
  asio::awaitable<Status> start_daemon() override { return monitor_->start(); }
  asio::awaitable<void> stop_daemon(bool) override { return monitor_->stop(); }

 private:
  sight::Recorder recorder_;
  std::unique_ptr<monitoring::Monitor> monitor_;
};

}  // namespace kintsugi::simulation
