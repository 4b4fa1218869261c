// Requests as no kernel sends them: nothing in them is believed.
#include "client/mount/kernel/dispatcher.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

#include "client/mount/kernel/directory_buffer.h"
#include "client/mount/kernel/handshake.h"
#include "common/runtime/production/run.h"
#include "tests/mount/memory_file_system.h"

namespace kintsugi::mount {
namespace {

/// Without what would wait, or take memory.
class HarmlessFileSystem : public MemoryFileSystem {
 public:
  using MemoryFileSystem::MemoryFileSystem;
  asio::awaitable<Status> allocate(const Caller&, NodeId, Handle, int, uint64_t offset,
                                   uint64_t bytes) override {
    EXPECT_LE(bytes, INT64_MAX - offset);
    co_return Status{};
  }
  asio::awaitable<Status> set_lock(const Caller&, NodeId, const LockRequest& request) override {
    EXPECT_LE(request.lock.start, request.lock.end);
    co_return Status{};
  }
  asio::awaitable<Result<Entry>> lookup(const Caller& caller, NodeId parent, std::string_view name) override {
    EXPECT_FALSE(name.empty());
    EXPECT_LE(name.size(), 255u);
    EXPECT_EQ(name.find_first_of(std::string_view("/\0", 2)), std::string_view::npos);
    co_return co_await MemoryFileSystem::lookup(caller, parent, name);
  }
};

TEST(Dispatcher, MutatedRequestsAreAnsweredOrRefused) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  runtime::ProductionRuntime runtime;
  HarmlessFileSystem file_system(runtime.runtime());
  Dispatcher dispatcher(file_system);
  dispatcher.agree(
      {.minor = 40, .flags = FUSE_SETXATTR_EXT, .max_write_bytes = 1 << 20, .max_read_bytes = 1 << 20});
  Request request{};
  size_t served = 0, succeeded = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> bytes(sizeof(fuse_in_header) + random() % 120);
    // Small numbers and short names, so that some of it makes sense.
    for (auto& byte : bytes)
      byte = random() % 3 == 0 ? static_cast<std::byte>("abc"[random() % 3]) : std::byte{0};
    fuse_in_header head{};
    head.len = static_cast<uint32_t>(bytes.size());
    if (random() % 20 == 0) head.len = static_cast<uint32_t>(random());
    head.opcode = 1 + static_cast<uint32_t>(random() % 54);
    head.unique = random() % 100 * 2 | (random() % 10 == 0 ? kUniqueResend : 0);
    head.nodeid = random() % 4;
    if (random() % 10 == 0) head.total_extlen = static_cast<uint16_t>(random() % 20);
    std::memcpy(bytes.data(), &head, sizeof head);
    for (uint64_t flips = random() % 4; flips > 0 && bytes.size() > sizeof head; --flips)
      bytes[sizeof head + random() % (bytes.size() - sizeof head)] = static_cast<std::byte>(random());
    request.reply.clear();
    request.granted = {};
    // A copy of exactly that size, so that a sanitizer sees who reads past it.
    if (parse_header(bytes, request) != 0) continue;
    ASSERT_LE(request.body.size() + sizeof head, bytes.size());
    if (head.opcode == FUSE_FORGET || head.opcode == FUSE_BATCH_FORGET) dispatcher.forget(request);
    if (request.operation == nullptr) continue;
    const int error = run_on(runtime, dispatcher.serve(request));
    ASSERT_GE(error, 0);
    ASSERT_LT(error, 512) << "the kernel takes no such errno";
    ++served;
    if (error == 0) {
      ++succeeded;
    } else {
      ASSERT_FALSE(request.granted.opened);
    }
  }
  EXPECT_GT(served, 10'000u);
  EXPECT_GT(succeeded, 500u);
}

TEST(Dispatcher, WhatAListingThatDidNotReachTheKernelLookedUpIsGivenBack) {
  runtime::ProductionRuntime runtime;
  MemoryFileSystem file_system(runtime.runtime());
  Dispatcher dispatcher(file_system);
  dispatcher.agree({.minor = 40, .max_read_bytes = 1 << 20});
  for (const char* name : {"a", "a longer name", "b"})
    ASSERT_TRUE(run_on(runtime, file_system.make_node({}, kRootNode, name, {.mode = S_IFIFO | 0600})));
  const size_t before = file_system.live_lookups();
  struct {
    fuse_in_header head{};
    fuse_read_in read{};
  } asked;
  asked.head.len = sizeof asked;
  asked.head.unique = 2;
  asked.head.nodeid = kRootNode;
  Request request{};
  const auto list = [&](uint32_t opcode, uint32_t bytes) {
    asked.head.opcode = opcode;
    asked.read.size = bytes;
    request.reply.clear();
    request.granted = {};
    KINTSUGI_ASSERT(parse_header(std::as_bytes(std::span(&asked, 1)), request) == 0);
    EXPECT_EQ(run_on(runtime, dispatcher.serve(request)), 0);
    const size_t looked_up = file_system.live_lookups() - before;
    run_on(runtime, dispatcher.undo(request));
    EXPECT_EQ(file_system.live_lookups(), before);
    return looked_up;
  };
  EXPECT_EQ(list(FUSE_READDIRPLUS, 4096), 3u);
  EXPECT_EQ(list(FUSE_READDIRPLUS, 4 * 176), 2u) << "with . and .., which are not looked up";
  EXPECT_EQ(list(FUSE_READDIR, 4096), 0u);
}

TEST(Dispatcher, RequestsThatAreTooShortAreRefused) {
  Request request{};
  std::vector<std::byte> bytes(sizeof(fuse_in_header) - 1);
  EXPECT_EQ(parse_header(bytes, request), kNoAnswerPossible);
}

TEST(Operations, OnlyAWaitForALockGivesUpAtAnySignalAndWhatHasNoAnswerIsNone) {
  std::map<std::string_view, int> names;
  for (uint32_t opcode = 0; opcode < 5000; ++opcode) {
    const Operation* operation = operation_of(opcode);
    if (operation == nullptr) continue;
    EXPECT_EQ(operation->opcode, opcode);
    EXPECT_EQ(operation->gives_up == GivesUp::kAtAnySignal, opcode == FUSE_SETLKW) << opcode;
    ++names[operation->site.name];
  }
  EXPECT_EQ(names.size(), 34u);
  for (const auto& [name, opcodes] : names)
    EXPECT_EQ(opcodes, name == "mount.rename" || name == "mount.read_directory" ? 2 : 1) << name;
  for (const uint32_t opcode : {FUSE_INIT, FUSE_DESTROY, FUSE_FORGET, FUSE_BATCH_FORGET, FUSE_INTERRUPT,
                                FUSE_IOCTL, FUSE_POLL, CUSE_INIT})
    EXPECT_EQ(operation_of(opcode), nullptr) << opcode;
}

TEST(DirectoryBuffer, TakesWhatFitsAndNotAByteMore) {
  std::string bytes;
  DirectoryBuffer listing(bytes, 100, false);
  EXPECT_EQ(listing.room(8), 3u);
  const DirectoryEntry entry{.name = "12345678", .cookie = 7};
  EXPECT_TRUE(listing.add(entry));
  EXPECT_TRUE(listing.add(entry));
  EXPECT_TRUE(listing.add(entry));
  EXPECT_FALSE(listing.add(entry));
  EXPECT_EQ(bytes.size(), 96u);
}

TEST(Handshake, OlderAndNewerKernels) {
  fuse_init_in in{
      .major = 7, .minor = 31, .max_readahead = 131072, .flags = FUSE_ASYNC_READ | FUSE_WRITEBACK_CACHE};
  const auto body = std::as_bytes(std::span(&in, 1));
  auto old = shake_hands(body.first(16), {});
  ASSERT_TRUE(old.has_value());
  EXPECT_EQ(old->negotiated.flags, uint64_t{FUSE_ASYNC_READ});
  EXPECT_FALSE(old->negotiated.resend);
  in.minor = 30;
  EXPECT_EQ(shake_hands(body, {}).error().code(), Code::kNotSupported);
  in.major = 8;
  EXPECT_TRUE(shake_hands(body, {})->again);
  EXPECT_EQ(shake_hands(body.first(8), {}).error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace kintsugi::mount
