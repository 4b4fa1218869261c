// kill -9 in the middle of commits: what was acknowledged is there afterwards.
#include <csignal>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "metaserver/kv/rocksdb_store.h"
#include "tests/metaserver/support.h"

namespace kintsugi::metaserver {
namespace {

constexpr int kWriters = 8;

asio::awaitable<void> write_forever(KeyValueStore& store, int writer, int acknowledged) {
  for (uint32_t i = 0;; ++i) {
    Batch batch;
    batch.put(fmt::format("{}/{}", writer, i), std::string(100, 'x'));
    batch.put(fmt::format("{}/latest", writer), std::to_string(i));
    const Status status = co_await store.commit(std::move(batch));
    if (!status.ok()) ::_exit(2);
    const uint32_t record[2] = {static_cast<uint32_t>(writer), i};
    if (::write(acknowledged, record, sizeof record) != sizeof record) ::_exit(3);
  }
}

[[noreturn]] void run_child(const std::string& directory, int acknowledged) {
  asio::io_context io;
  auto store = RocksDbStore::open(io.get_executor(), directory);
  if (!store) ::_exit(1);
  for (int writer = 0; writer < kWriters; ++writer) {
    asio::co_spawn(io, write_forever(**store, writer, acknowledged), asio::detached);
  }
  io.run();
  ::_exit(4);
}

TEST(RocksDbStore, KeepsEveryAcknowledgedBatchWhenItsProcessIsKilled) {
  TemporaryDirectory directory;
  for (int round = 0; round < 5; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(pipe[0]);
      run_child(directory.path() + "/" + std::to_string(round), pipe[1]);
    }
    ::close(pipe[1]);
    std::map<uint32_t, uint32_t> newest;
    size_t acknowledged = 0;
    uint32_t record[2];
    const size_t kill_after = 200 + 300 * static_cast<size_t>(round);
    while (::read(pipe[0], record, sizeof record) == sizeof record) {
      newest[record[0]] = record[1];
      if (++acknowledged == kill_after) ::kill(child, SIGKILL);
    }
    ::close(pipe[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child left by itself: " << WEXITSTATUS(status);
    ASSERT_GE(acknowledged, kill_after);

    asio::io_context io;
    auto store = RocksDbStore::open(io.get_executor(), directory.path() + "/" + std::to_string(round));
    ASSERT_TRUE(store) << store.error();
    for (const auto& [writer, last] : newest) {
      for (uint32_t i = 0; i <= last; ++i) {
        ASSERT_TRUE((*store)->get(fmt::format("{}/{}", writer, i)))
            << writer << "/" << i << " was acknowledged";
      }
      // One batch is there whole or not at all.
      const uint32_t latest =
          static_cast<uint32_t>(std::stoul(*(*store)->get(fmt::format("{}/latest", writer))));
      ASSERT_GE(latest, last);
      ASSERT_TRUE((*store)->get(fmt::format("{}/{}", writer, latest)));
      ASSERT_FALSE((*store)->get(fmt::format("{}/{}", writer, latest + 1)));
    }
  }
}

}  // namespace
}  // namespace kintsugi::metaserver
