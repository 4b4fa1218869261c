// What lies behind a small file in its stripe is read with it when files are read in the order in which they were written.
#include "client/lib/read/packed_reads.h"

#include <gtest/gtest.h>

#include "client/lib/read/small_read.h"
#include "tests/client/fake_cluster.h"
#include "tests/expect_ok.h"

namespace kintsugi::client {
namespace {

using Bytes = std::vector<std::byte>;

LocatedExtent part(uint64_t stripe, uint64_t offset, uint64_t length) {
  proto::Stripe described;
  described.set_stripe_id(stripe);
  described.set_length(1 << 20);
  return {.length = length,
          .stripe = std::make_shared<const LocatedStripe>(LocatedStripe{described, {}}),
          .stripe_offset = offset};
}

TEST(PackedReads, ReadMoreOfAStripeOnceOneReadFollowsOnAnother) {
  PackedReads packed;
  EXPECT_EQ(packed.widened(part(1, 0, 4096)).length, 4096u) << "nobody knows yet that more will be asked for";
  EXPECT_EQ(packed.widened(part(2, 4096, 4096)).length, 4096u) << "of another stripe";
  const LocatedExtent wide = packed.widened(part(1, 5000, 100));
  EXPECT_EQ(wide.stripe_offset, 5000u);
  EXPECT_EQ(wide.length, kMaxSmallRead);
  EXPECT_EQ(packed.widened(part(1, 500'000, 4096)).length, 4096u) << "somewhere else";
  EXPECT_EQ(packed.widened(part(1, 4096, 4096)).length, 4096u) << "backwards";
  (void)packed.widened(part(3, (1 << 20) - 8192, 4096));
  EXPECT_EQ(packed.widened(part(3, (1 << 20) - 4096, 4096)).length, 4096u) << "the stripe ends there";
}

TEST(PackedReads, KeepLittleAndOnlyWhatIsAskedFor) {
  PackedReads packed;
  Bytes bytes(kMaxSmallRead);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i / 256);
  packed.keep(part(1, 8192, kMaxSmallRead), bytes);
  Bytes into(4096);
  EXPECT_TRUE(packed.copy(part(1, 8192 + 512, 4096), into));
  EXPECT_EQ(into.front(), std::byte{2});
  EXPECT_FALSE(packed.copy(part(1, 8191, 4096), into));
  EXPECT_FALSE(packed.copy(part(1, 8192 + kMaxSmallRead - 4095, 4096), into));
  EXPECT_FALSE(packed.copy(part(2, 8192, 4096), into));
  for (uint64_t stripe = 2; stripe < 2 + PackedReads::kMaxKept; ++stripe)
    packed.keep(part(stripe, 0, kMaxSmallRead), bytes);
  EXPECT_FALSE(packed.copy(part(1, 8192, 4096), into)) << "the oldest is forgotten";
}

TEST(PackedReads, SaveCallsToChunkserversWhenSmallFilesAreReadInTurn) {
  FakeCluster cluster(5);
  const auto reads = [&] {
    uint64_t sum = 0;
    for (const auto& server : cluster.servers)
      sum += server->reads;
    return sum;
  };
  auto files = cluster.open_files();
  std::vector<uint64_t> inodes;
  std::vector<Bytes> contents;
  std::vector<std::unique_ptr<OpenHandle>> handles;
  for (size_t i = 0; i < 40; ++i) {
    inodes.push_back(cluster.meta.add_inode());
    contents.emplace_back(3000 + 10 * i, static_cast<std::byte>(i));
    auto opened = cluster.run(files->open({}, inodes.back()));
    ASSERT_TRUE(opened);
    KINTSUGI_ASSERT_OK(cluster.run((*opened)->file().write({}, 0, contents.back())));
    handles.push_back(std::move(*opened));
  }
  // All of them are written out together, a while later.
  cluster.simulation.run_for(std::chrono::seconds(10));
  for (auto& handle : handles)
    KINTSUGI_ASSERT_OK(cluster.run(handle->close({})));
  handles.clear();
  const uint64_t before = reads();
  for (size_t i = 0; i < inodes.size(); ++i) {
    auto opened = cluster.run(files->open({}, inodes[i]));
    ASSERT_TRUE(opened);
    Bytes bytes(8192);
    const auto read = cluster.run((*opened)->file().read({}, 0, bytes));
    ASSERT_TRUE(read) << read.error();
    bytes.resize(*read);
    EXPECT_TRUE(bytes == contents[i]) << i;
    KINTSUGI_ASSERT_OK(cluster.run((*opened)->close({})));
  }
  EXPECT_LE(reads() - before, inodes.size() / 2);
  (void)cluster.run(files->stop());
}

}  // namespace
}  // namespace kintsugi::client
