/// A repair manager on its machine.
#pragma once

#include "monitoring/sight/recorder.h"
#include "repair_manager/daemon/repair_daemon.h"
#include "tests/simulation/cluster/started_program.h"

namespace kintsugi::simulation {

class RepairManagerProgram final : public StartedProgram {
 public:
  RepairManagerProgram(const runtime::Runtime& runtime, repair_manager::RepairDaemonOptions options,
                       const rpc::Secret& secret, uint64_t recorder_seed)
      : StartedProgram(runtime), recorder_(runtime.clock, recorder_seed) {
    options.recorder = &recorder_;
    daemon_ = std::make_unique<repair_manager::RepairDaemon>(this->runtime(), std::move(options), secret);
  }

  repair_manager::RepairManager& repairs() { return daemon_->repairs(); }
  repair_manager::Compactor& compactor() { return daemon_->compactor(); }
  bool has_shards() const { return daemon_->feed().joined() && daemon_->feed().shards() > 0; }
  const sight::Recorder& recorder() const override { return recorder_; }
  sight::Reporting who() const override {
    const std::string address = daemon_->endpoint().to_string();
    return {.kind = "repair-manager", .name = "repair manager " + address, .address = address};
  }

 protected:
  asio::awaitable<Status> start_daemon() override { co_return daemon_->start(); }
  asio::awaitable<void> stop_daemon(bool) override { co_await daemon_->stop(); }

 private:
  sight::Recorder recorder_;
  std::unique_ptr<repair_manager::RepairDaemon> daemon_;
};

}  // namespace kintsugi::simulation
