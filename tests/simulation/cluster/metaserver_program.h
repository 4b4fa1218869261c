/// A metaserver on its machine.
#pragma once

#include "metaserver/daemon/meta_daemon.h"
#include "monitoring/sight/recorder.h"
#include "tests/simulation/cluster/started_program.h"
#include "tests/simulation/store/memory_store.h"

namespace kintsugi::simulation {

class MetaserverProgram final : public StartedProgram {
 public:
  MetaserverProgram(const runtime::Runtime& runtime, metaserver::MetaDaemonOptions options,
                    const rpc::Secret& secret, MemoryStoreDisk& disk, uint64_t recorder_seed)
      : StartedProgram(runtime),
        recorder_(runtime.clock, recorder_seed),
        address_(options.metaserver.listen.to_string()),
        store_(runtime.executor, runtime.clock, disk) {
    options.metaserver.recorder = &recorder_;
    daemon_ = std::make_unique<metaserver::MetaDaemon>(this->runtime(), std::move(options), secret, store_);
  }
  const sight::Recorder& recorder() const override { return recorder_; }
  sight::Reporting who() const override {
    return {.kind = "metaserver", .name = "metaserver", .address = address_};
  }

 protected:
  asio::awaitable<Status> start_daemon() override { return daemon_->start(); }
  asio::awaitable<void> stop_daemon(bool) override {
    co_await daemon_->stop();
    co_await store_.close();
  }

 private:
  sight::Recorder recorder_;
  const std::string address_;
  MemoryStore store_;
  std::unique_ptr<metaserver::MetaDaemon> daemon_;
};

}  // namespace kintsugi::simulation
