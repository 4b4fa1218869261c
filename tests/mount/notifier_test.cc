// What the kernel caches, and how it is told that it is out of date.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/mount/mounted.h"

namespace kintsugi::mount {
namespace {

/// Changes that come from elsewhere: the kernel knows nothing of them.
class SharedFileSystem : public MemoryFileSystem {
 public:
  explicit SharedFileSystem(const runtime::Runtime& runtime) : MemoryFileSystem(runtime) {
    lifetime = std::chrono::hours(1);
    open_as.keep_cache = true;
  }
  int set_mode(NodeId id, uint32_t mode) {
    find(id)->attributes.mode = S_IFREG | mode;
    return 0;
  }
  int set_contents(NodeId id, std::string_view contents) {
    return static_cast<int>(::pwrite(find(id)->contents, contents.data(), contents.size(), 0));
  }
};

class Notifications : public ::testing::Test {
 protected:
  void SetUp() override {
    KINTSUGI_NEEDS_FUSE();
    mounted_ = std::make_unique<Mounted<SharedFileSystem>>();
    write_file(path(), "before");
    ASSERT_EQ(contents_of(path()), "before");
    id_ = status().st_ino;
  }
  std::string path(const std::string& name = "a") { return mounted_->path(name); }
  struct stat status() {
    struct stat found{};
    EXPECT_EQ(::stat(path().c_str(), &found), 0);
    return found;
  }
  Notifier& notifier() { return *mounted_->notifier; }
  Status run(asio::awaitable<Status> task) { return run_on(mounted_->runtime, std::move(task)); }

  std::unique_ptr<Mounted<SharedFileSystem>> mounted_;
  NodeId id_ = 0;
};

TEST_F(Notifications, AttributesAndDataAreCachedUntilTheyAreInvalidated) {
  mounted_->on_loop([&] { return mounted_->file_system->set_mode(id_, 0123); });
  mounted_->on_loop([&] { return mounted_->file_system->set_contents(id_, "after!"); });
  EXPECT_NE(status().st_mode & 0777, 0123u);
  EXPECT_EQ(contents_of(path()), "before");
  ASSERT_TRUE(run(notifier().invalidate_inode(id_, -1, 0)).ok());
  EXPECT_EQ(status().st_mode & 0777, 0123u);
  EXPECT_EQ(contents_of(path()), "before");
  ASSERT_TRUE(run(notifier().invalidate_inode(id_, 0, 0)).ok());
  EXPECT_EQ(contents_of(path()), "after!");
}

TEST_F(Notifications, NamesAreLookedUpAgain) {
  const Caller nobody;
  ASSERT_TRUE(run(mounted_->file_system->unlink(nobody, kRootNode, "a")).ok());
  EXPECT_EQ(::access(path().c_str(), F_OK), 0);
  ASSERT_TRUE(run(notifier().invalidate_entry(kRootNode, "a", true)).ok());
  EXPECT_EQ(outcome(::access(path().c_str(), F_OK)), -ENOENT);
}

TEST_F(Notifications, WhatTheKernelDoesNotKnowIsNoError) {
  EXPECT_TRUE(run(notifier().invalidate_inode(4711, 0, 0)).ok());
  EXPECT_TRUE(run(notifier().invalidate_entry(kRootNode, "nobody", false)).ok());
  EXPECT_TRUE(run(notifier().invalidate_entry(4711, std::string(255, 'n'), false)).ok());
}

TEST_F(Notifications, ManyAtOnceAreAllDone) {
  runtime::ProductionRuntime& runtime = mounted_->runtime;
  size_t done = 0;
  for (int i = 0; i < 2000; ++i) {
    asio::co_spawn(
        runtime.io(),
        [](Notifier& notifier, NodeId id, size_t& done) -> asio::awaitable<void> {
          if ((co_await notifier.invalidate_inode(id, 0, 0)).ok()) ++done;
        }(notifier(), id_, done),
        asio::detached);
  }
  EXPECT_TRUE(eventually([&] { return mounted_->on_loop([&] { return done; }) == 2000; }));
}

}  // namespace
}  // namespace kintsugi::mount
