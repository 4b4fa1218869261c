/// A chunkserver on its machine.
#pragma once

#include <gtest/gtest.h>

#include "chunkserver/service/chunkserver.h"
#include "tests/simulation/cluster/started_program.h"

namespace kintsugi::simulation {

class ChunkserverProgram final : public StartedProgram {
 public:
  ChunkserverProgram(const runtime::Runtime& runtime, chunkserver::Options options, const rpc::Secret& secret)
      : StartedProgram(runtime), server_(this->runtime(), std::move(options), secret) {
    server_.on_refused = [](const Status& why) {
      if (why.code() != Code::kNotFound) ADD_FAILURE() << "a chunkserver was refused: " << why;
    };
  }

  chunkserver::ChunkStore& store() { return server_.store(); }
  const sight::Recorder& recorder() const override { return server_.recorder(); }
  sight::Reporting who() const override {
    return {.kind = "chunkserver",
            .name = server_.name(),
            .address = server_.address(),
            .server_id = server_.id().value};
  }

 protected:
  asio::awaitable<Status> start_daemon() override { return server_.start(); }
  asio::awaitable<void> stop_daemon(bool) override { return server_.stop(); }

 private:
  chunkserver::ChunkServer server_;
};

}  // namespace kintsugi::simulation
