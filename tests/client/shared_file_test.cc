// Several who write, append to, truncate and change one file at once, while the metaserver answers late, twice and out of order.
#include <cstdlib>

#include <gtest/gtest.h>

#include "client/lib/dirty/dirty_buffers.h"
#include "client/lib/files/append_log.h"
#include "client/lib/files/open_files.h"
#include "common/runtime/task_group.h"
#include "tests/client/fake_cluster.h"
#include "tests/expect_ok.h"

namespace kintsugi::client {
namespace {

using Bytes = std::vector<std::byte>;

/// One file of a fake cluster, open once, and a group of those who use it at once.
struct SharedFile {
  explicit SharedFile(uint64_t seed, FilesOptions options = {})
      : cluster(seed),
        files(cluster.open_files(options)),
        inode(cluster.meta.add_inode()),
        users(cluster.simulation.executor(), cluster.simulation.clock()) {
    auto opened = cluster.run(files->open({}, inode));
    KINTSUGI_ASSERT(opened);
    handle = std::move(*opened);
  }
  ~SharedFile() {
    cluster.run(users.join());
    (void)cluster.run(handle->close({}, true));
    handle.reset();
    (void)cluster.run(files->stop());
    files.reset();
  }

  OpenFile& file() { return handle->file(); }
  Bytes read() {
    Bytes bytes(file().size());
    const auto read = cluster.run(file().read({}, 0, bytes));
    EXPECT_TRUE(read) << read.error();
    bytes.resize(read ? *read : 0);
    return bytes;
  }

  // ---- what users do; each is awaited by the group only

  asio::awaitable<void> append(Bytes bytes, uint64_t expected_at) {
    const auto at = co_await file().append({}, bytes);
    EXPECT_TRUE(at) << at.error();
    if (at) EXPECT_EQ(*at, expected_at);
  }
  asio::awaitable<void> write(uint64_t offset, Bytes bytes) {
    EXPECT_EQ(co_await file().write({}, offset, bytes), Status{});
  }
  asio::awaitable<void> truncate(uint64_t size) { EXPECT_EQ(co_await file().truncate({}, size), Status{}); }
  asio::awaitable<void> sync() { EXPECT_EQ(co_await handle->sync({}), Status{}); }
  asio::awaitable<void> change_mode(uint32_t mode) {
    proto::SetAttributesRequest request;
    request.set_mode(mode);
    EXPECT_TRUE(co_await file().set_attributes({}, std::move(request)));
  }
  asio::awaitable<void> ask() { EXPECT_TRUE(co_await file().refresh({})); }

  FakeCluster cluster;
  std::unique_ptr<OpenFiles> files;
  const uint64_t inode;
  std::unique_ptr<OpenHandle> handle;
  runtime::TaskGroup users;
};

TEST(SharedFile, TwoAppendsAtOnceDoNotOverwriteEachOther) {
  SharedFile shared(3, {.dirty_bytes = size_t{1} << 20});
  for (auto& server : shared.cluster.servers)
    server->write_delay = 200ms;
  const Bytes first(3'000'000, std::byte{'a'}), second(500'000, std::byte{'b'});
  shared.users.spawn(shared.append(first, 0));
  shared.users.spawn(shared.append(second, first.size()));
  shared.cluster.run(shared.users.join());
  Bytes both = first;
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_TRUE(shared.read() == both);
}

TEST(SharedFile, AWriteBeyondTheEndComesBeforeOrAfterAnAppendAndNotIntoIt) {
  SharedFile shared(4, {.dirty_bytes = size_t{1} << 20});
  for (auto& server : shared.cluster.servers)
    server->write_delay = 200ms;
  const Bytes appended(3'000'000, std::byte{'a'}), written(1000, std::byte{'w'});
  shared.users.spawn(shared.append(appended, 0));
  shared.users.spawn(shared.write(2'500'000, written));
  shared.cluster.run(shared.users.join());
  Bytes model = appended;
  std::ranges::copy(written, model.begin() + 2'500'000);
  EXPECT_TRUE(shared.read() == model);
}

TEST(SharedFile, ALateAnswerToAChmodDoesNotBringTheOldSizeBack) {
  SharedFile shared(3);
  shared.cluster.meta.answers_after[rpc::Method::kSetAttributes] = 500ms;
  const Bytes bytes(200'000, std::byte{'a'}), more(1000, std::byte{'b'});
  shared.users.spawn(shared.change_mode(0600));
  shared.cluster.simulation.run_for(50ms);
  shared.cluster.run(shared.write(0, bytes));
  shared.cluster.run(shared.sync());
  shared.cluster.run(shared.users.join());
  EXPECT_EQ(shared.file().size(), bytes.size());
  EXPECT_EQ(shared.file().attributes().mode() & 0777, 0600u);
  shared.cluster.run(shared.append(more, bytes.size()));
}

TEST(SharedFile, AnAnswerThatWasAskedForAfterTheLastOneIsTakenWhateverTheClockSays) {
  // The metaserver's clock may go back, as when another machine takes over.
  SharedFile shared(5);
  shared.cluster.run(shared.write(0, Bytes(1000, std::byte{'a'})));
  shared.cluster.run(shared.sync());
  auto& stored = shared.cluster.meta.inodes[shared.inode].attributes;
  stored.set_changed_ns(stored.changed_ns() - 1'000'000);
  shared.cluster.run(shared.append(Bytes(500, std::byte{'b'}), 1000));
  shared.cluster.run(shared.sync());
  EXPECT_EQ(shared.file().size(), 1500u);
}

/// The memory of a process that was killed, and of the next one.
class Lasting : public DirtyMemory {
 public:
  explicit Lasting(std::span<std::byte> region) : region_(region) {}
  std::span<std::byte> region() override { return region_; }

 private:
  std::span<std::byte> region_;
};

/// A process that appends, is killed before it has answered, and is followed by another one that is asked for the same again.
struct KilledAppender {
  explicit KilledAppender(uint64_t seed) : cluster(seed), inode(cluster.meta.add_inode()) {}

  void begin() {
    files = cluster.open_files({}, std::make_unique<Lasting>(dirty.region()));
    files->note_appends(std::as_writable_bytes(std::span(appends)));
    (void)files->recover();
    auto opened = cluster.run(files->open({}, inode));
    KINTSUGI_ASSERT(opened);
    handle = std::move(*opened);
  }
  void end(bool killed) {
    if (killed) (void)cluster.run(files->stop(true));
    (void)cluster.run(handle->close({}, !killed));
    handle.reset();
    if (!killed) (void)cluster.run(files->stop());
    files.reset();
  }
  uint64_t append(uint64_t request, std::string_view text) {
    const auto at = cluster.run(handle->file().append({}, std::as_bytes(std::span(text)), false, request));
    EXPECT_TRUE(at) << at.error();
    return at ? *at : UINT64_MAX;
  }
  std::string contents() {
    std::string text(handle->file().size(), '\0');
    const auto read = cluster.run(handle->file().read({}, 0, std::as_writable_bytes(std::span(text))));
    EXPECT_TRUE(read && *read == text.size());
    return text;
  }

  FakeCluster cluster;
  ProcessDirtyMemory dirty{DirtyBuffers::region_bytes(4 << 20)};
  std::vector<uint64_t> appends = std::vector<uint64_t>(AppendLog::kBytes / sizeof(uint64_t));
  const uint64_t inode;
  std::unique_ptr<OpenFiles> files;
  std::unique_ptr<OpenHandle> handle;
};

TEST(SharedFile, AnAppendThatIsAskedForAgainAfterAKillIsThereOnce) {
  for (const bool synced : {false, true}) {
    KilledAppender appender(11);
    appender.begin();
    EXPECT_EQ(appender.append(2, "one,"), 0u);
    EXPECT_EQ(appender.append(4, "two,"), 4u);
    if (synced) EXPECT_EQ(appender.cluster.run(appender.handle->sync({})), Status{});
    appender.end(true);
    appender.begin();
    EXPECT_EQ(appender.append(4, "two,"), 4u);
    EXPECT_EQ(appender.append(6, "three"), 8u);
    EXPECT_EQ(appender.contents(), "one,two,three");
    // Killed once more: what the first process left behind is still known.
    appender.end(true);
    appender.begin();
    EXPECT_EQ(appender.append(6, "three"), 8u);
    EXPECT_EQ(appender.contents(), "one,two,three");
    appender.end(false);
  }
}

TEST(SharedFile, AnAppendOfWhichAKilledProcessTookOnlyAPartIsCompleted) {
  KilledAppender appender(12);
  appender.begin();
  EXPECT_EQ(appender.append(2, "one,"), 0u);
  EXPECT_EQ(appender.append(4, "tw"), 4u);  // as far as it came
  appender.end(true);
  appender.begin();
  EXPECT_EQ(appender.append(4, "two,"), 4u);
  EXPECT_EQ(appender.contents(), "one,two,");
  appender.end(false);
}

TEST(SharedFile, AnAppendThatIsAskedForAgainOverwritesNothingThatOthersAppended) {
  for (const bool lost : {false, true}) {
    KilledAppender appender(13);
    appender.begin();
    EXPECT_EQ(appender.append(4, "mine,"), 0u);
    EXPECT_EQ(appender.cluster.run(appender.handle->sync({})), Status{});
    if (lost) EXPECT_EQ(appender.cluster.run(appender.handle->file().truncate({}, 0)), Status{});
    EXPECT_EQ(appender.append(0, "that of others,"), lost ? 0u : 5u);
    EXPECT_EQ(appender.cluster.run(appender.handle->sync({})), Status{});
    appender.end(true);
    appender.begin();
    EXPECT_EQ(appender.append(4, "mine,"), lost ? 15u : 0u);
    EXPECT_EQ(appender.contents(), lost ? "that of others,mine," : "mine,that of others,");
    appender.end(false);
  }
}

TEST(AppendLog, KnowsWhatWasBegunUntilThousandsOfOthersWere) {
  std::vector<uint64_t> region(AppendLog::kBytes / sizeof(uint64_t));
  const auto bytes = std::as_writable_bytes(std::span(region));
  {
    AppendLog log(bytes);
    EXPECT_EQ(log.begun(7, 1), std::nullopt);
    const AppendLog::Note waits(log, 7, 1, 100);
    for (uint64_t request = 2; request < 20'000; ++request)
      const AppendLog::Note note(log, 7, request, request);
    const AppendLog next(bytes);
    EXPECT_EQ(next.begun(7, 1), 100u) << "it is under way";
    EXPECT_EQ(next.begun(8, 1), std::nullopt) << "of another file";
    EXPECT_EQ(next.begun(7, 19'999), 19'999u);
    EXPECT_EQ(next.begun(7, 17'000), 17'000u);
    EXPECT_EQ(next.begun(7, 2), std::nullopt) << "it ended long ago";
  }
  // The next process uses what is oldest first.
  AppendLog next(bytes);
  for (uint64_t request = 20'000; request < 21'000; ++request)
    const AppendLog::Note note(next, 7, request, request);
  const AppendLog last(bytes);
  EXPECT_EQ(last.begun(7, 19'999), 19'999u);
  EXPECT_EQ(last.begun(7, 20'999), 20'999u);
}

TEST(AppendLog, BelievesNoTornNote) {
  std::vector<uint64_t> region(AppendLog::kBytes / sizeof(uint64_t));
  AppendLog log(std::as_writable_bytes(std::span(region)));
  const AppendLog::Note note(log, 7, 1, 100);
  for (size_t word = 0; word < 5; ++word) {
    std::vector<uint64_t> torn = region;
    torn[word] ^= 1;
    EXPECT_EQ(AppendLog(std::as_writable_bytes(std::span(torn))).begun(7, 1), std::nullopt) << word;
  }
}

/// The file and what it must be. Changes of sizes and bytes have the order in which they were begun.
struct Model {
  void append(std::span<const std::byte> added) { write(bytes.size(), added); }
  void write(uint64_t offset, std::span<const std::byte> written) {
    bytes.resize(std::max<uint64_t>(bytes.size(), offset + written.size()));
    std::ranges::copy(written, bytes.begin() + static_cast<ptrdiff_t>(offset));
  }
  Bytes bytes;
};

void begin_anything(SharedFile& shared, Model& model) {
  constexpr uint64_t kMost = 1'500'000;
  auto& random = shared.cluster.simulation.random();
  const Bytes bytes = random_bytes(1 + random.below(random.below(4) == 0 ? 600'000 : 5'000), random.next());
  switch (random.below(10)) {
    case 0: {
      const uint64_t size = random.below(kMost);
      model.bytes.resize(size);
      return shared.users.spawn(shared.truncate(size));
    }
    case 1: return shared.users.spawn(shared.change_mode(static_cast<uint32_t>(random.below(0777))));
    case 2: return shared.users.spawn(shared.ask());
    case 3: return shared.users.spawn(shared.sync());
    case 4:
    case 5:
    case 6: {
      const uint64_t offset = random.below(kMost);
      model.write(offset, bytes);
      return shared.users.spawn(shared.write(offset, bytes));
    }
    default: shared.users.spawn(shared.append(bytes, model.bytes.size())); model.append(bytes);
  }
}

void go_through(uint64_t seed) {
  SCOPED_TRACE(fmt::format("KINTSUGI_TEST_SEED={}", seed));
  SharedFile shared(seed, {.dirty_bytes = size_t{1} << (seed % 3 == 0 ? 23 : 20)});
  auto& random = shared.cluster.simulation.random();
  shared.cluster.meta.keeps_inline = seed % 2 == 0;
  shared.cluster.meta.latest_answer = std::chrono::milliseconds(1 + random.below(1000));
  Model model;
  for (int round = 0; round < 6; ++round) {
    for (uint64_t left = 1 + random.below(8); left > 0; --left) {
      begin_anything(shared, model);
      if (random.below(2) == 0)
        shared.cluster.simulation.run_for(std::chrono::milliseconds(random.below(400)));
    }
    shared.cluster.run(shared.users.join());
    ASSERT_EQ(shared.file().size(), model.bytes.size()) << "round " << round;
    ASSERT_TRUE(shared.read() == model.bytes) << "round " << round;
  }
  shared.cluster.run(shared.sync());
  const proto::Attributes& stored = shared.cluster.meta.inodes[shared.inode].attributes;
  EXPECT_EQ(stored.size(), model.bytes.size());
  EXPECT_EQ(shared.file().attributes().mode(), stored.mode());
  EXPECT_EQ(shared.file().attributes().size(), stored.size());
}

TEST(SharedFile, IsWhatTheModelSaysWhateverSeveralDoAtOnce) {
  const char* first = std::getenv("KINTSUGI_TEST_SEED");
  const char* rounds = std::getenv("KINTSUGI_TEST_ROUNDS");
  const uint64_t from = first != nullptr ? std::strtoull(first, nullptr, 10) : 1;
  const uint64_t count = rounds != nullptr ? std::strtoull(rounds, nullptr, 10) : first != nullptr ? 1 : 20;
  for (uint64_t seed = from; seed < from + count && !HasFatalFailure(); ++seed)
    go_through(seed);
}

}  // namespace
}  // namespace kintsugi::client
