/// Small helpers for tests on the simulated runtime.
#pragma once

#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "common/runtime/disk.h"
#include "common/runtime/network.h"
#include "tests/simulation/runtime/sim_random.h"

namespace kintsugi::simulation {

/// Memory that the disk accepts, filled with one value.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t bytes, char fill = 0)
      : size_(bytes),
        data_(static_cast<std::byte*>(std::aligned_alloc(runtime::kDiskAlignment, bytes)), &std::free) {
    std::fill_n(data_.get(), bytes, std::byte{static_cast<unsigned char>(fill)});
  }
  std::span<std::byte> span() const { return {data_.get(), size_}; }
  std::byte& operator[](size_t index) const { return data_.get()[index]; }

 private:
  size_t size_;
  std::unique_ptr<std::byte, decltype(&std::free)> data_;
};

inline std::vector<std::byte> random_bytes(size_t bytes, uint64_t seed) {
  std::vector<std::byte> out(bytes);
  SimRandom(seed).fill(out);
  return out;
}

inline asio::awaitable<Status> send(runtime::Connection& connection, std::span<const std::byte> bytes) {
  const std::array<asio::const_buffer, 1> buffers{asio::const_buffer(bytes.data(), bytes.size())};
  const std::span<const asio::const_buffer> view(buffers);
  co_return co_await connection.write(view);
}

inline asio::awaitable<Status> send_text(runtime::Connection& connection, std::string_view text) {
  co_return co_await send(connection, std::as_bytes(std::span(text.data(), text.size())));
}

/// A dialled connection and the accepted other end.
struct Pair {
  std::unique_ptr<runtime::Listener> listener;
  std::unique_ptr<runtime::Connection> client;
  std::unique_ptr<runtime::Connection> server;
};

inline asio::awaitable<Pair> connect(runtime::Network& from, runtime::Network& to, std::string host) {
  Pair pair;
  auto listener = to.listen({host, 0});
  EXPECT_TRUE(listener) << listener.error();
  pair.listener = std::move(*listener);
  auto client = co_await from.dial(pair.listener->local_endpoint(), TimePoint::max());
  EXPECT_TRUE(client) << client.error();
  pair.client = std::move(*client);
  auto server = co_await pair.listener->accept();
  EXPECT_TRUE(server) << server.error();
  pair.server = std::move(*server);
  co_return pair;
}

}  // namespace kintsugi::simulation
