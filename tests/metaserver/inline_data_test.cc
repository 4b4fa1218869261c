// Bytes that come with a change of the metadata and are kept with it.
#include "common/proto/inline_data.h"

#include <gtest/gtest.h>

#include "common/base/crc32c.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

constexpr uint64_t kBlock = 4096;

class InlineRig : public MetaServerRig {
 public:
  explicit InlineRig(MetaServerOptions options = {}) : MetaServerRig(1, 9, 3, options) {
    KINTSUGI_EXPECT_OK(put("/file", 1, 100'000));
    KINTSUGI_EXPECT_OK(put("/other", 1, 100'000));
  }

  uint64_t inode(const std::string& path) { return open(path)->attributes().inode(); }

  /// A call that writes `bytes` at each of the offsets, one after the other.
  proto::WriteExtentsRequest request(const std::string& path, const std::vector<uint64_t>& offsets,
                                     const std::string& bytes) {
    proto::WriteExtentsRequest request;
    request.set_inode(inode(path));
    for (const uint64_t offset : offsets) {
      proto::Extent& extent = *request.add_extents();
      extent.set_file_offset(offset);
      extent.set_length(bytes.size() / offsets.size());
      request.set_size_at_least(offset + extent.length());
    }
    request.set_inline_data(bytes);
    request.set_inline_crc(crc32c(std::as_bytes(std::span(bytes))));
    return request;
  }
  Status write(const proto::WriteExtentsRequest& request) {
    return status_of(call<proto::WriteExtentsResponse>(rpc::Method::kWriteExtents, request));
  }
  Status write(const std::string& path, uint64_t offset, const std::string& bytes) {
    return write(request(path, {offset}, bytes));
  }

  /// What a client would read of bytes that the metaserver keeps: "" where the file has others.
  std::string kept(const std::string& path, uint64_t offset, uint64_t length) {
    const auto answer = open(path, offset, length);
    std::string bytes;
    for (const proto::Extent& extent : answer->extents()) {
      const auto stripe = std::ranges::find_if(
          answer->stripes(), [&](const proto::Stripe& one) { return one.stripe_id() == extent.stripe_id(); });
      const std::string& data = stripe->inline_data();
      if (data.empty()) continue;
      EXPECT_EQ(crc32c(std::as_bytes(std::span(data))), stripe->inline_crc());
      const uint64_t begin = std::max(offset, extent.file_offset());
      const uint64_t end = std::min(offset + length, extent.file_offset() + extent.length());
      bytes += data.substr(extent.stripe_offset() + (begin - extent.file_offset()), end - begin);
    }
    return bytes;
  }
  uint64_t total() { return total_inline_bytes(Transaction(*store)); }
};

TEST(InlineData, IsReadBackAlsoAfterACrash) {
  InlineRig rig;
  const std::string bytes = std::string(kBlock, 'a') + std::string(kBlock, 'b');
  KINTSUGI_ASSERT_OK(rig.write(rig.request("/file", {0, 50'000}, bytes)));
  rig.restart();
  EXPECT_EQ(rig.kept("/file", 0, kBlock), std::string(kBlock, 'a'));
  EXPECT_EQ(rig.kept("/file", 50'100, 200), std::string(200, 'b'));
  EXPECT_EQ(rig.open("/file")->extents_size(), 4) << "the rest of the file is where it was";
  EXPECT_EQ(rig.open("/file")->attributes().size(), 100'000u);
  EXPECT_EQ(rig.total(), 2 * kBlock);
  EXPECT_EQ(rig.fsck().problems_size(), 0);
}

TEST(InlineData, GoesWithTheLastExtentThatNamesIt) {
  InlineRig rig;
  KINTSUGI_ASSERT_OK(rig.write("/file", 0, std::string(kBlock, 'a')));
  KINTSUGI_ASSERT_OK(rig.write("/file", 1000, std::string(1000, 'b')));
  EXPECT_EQ(rig.kept("/file", 0, kBlock),
            std::string(1000, 'a') + std::string(1000, 'b') + std::string(kBlock - 2000, 'a'));
  proto::CopyExtentsRequest copy;
  copy.set_from(rig.inode("/file"));
  copy.set_to(rig.inode("/other"));
  copy.set_length(500);
  ASSERT_TRUE(rig.call<proto::CopyExtentsResponse>(rpc::Method::kCopyExtents, copy));
  KINTSUGI_ASSERT_OK(rig.remove("/file"));
  EXPECT_EQ(rig.kept("/other", 0, 500), std::string(500, 'a')) << "another file shares it";
  EXPECT_EQ(rig.total(), kBlock);
  KINTSUGI_ASSERT_OK(rig.remove("/other"));
  EXPECT_EQ(rig.total(), 0u);
}

TEST(InlineData, IsKeptForASnapshotThatHasIt) {
  InlineRig rig;
  KINTSUGI_ASSERT_OK(rig.write("/file", 0, std::string(kBlock, 'a')));
  proto::CreateSnapshotRequest create;
  create.set_path("/");
  create.set_name("s");
  ASSERT_TRUE(rig.call<proto::Empty>(rpc::Method::kCreateSnapshot, create));
  KINTSUGI_ASSERT_OK(rig.write("/file", 0, std::string(kBlock, 'b')));
  rig.restart();
  EXPECT_EQ(rig.kept("/.snapshots/s/file", 0, kBlock), std::string(kBlock, 'a'));
  EXPECT_EQ(rig.kept("/file", 0, kBlock), std::string(kBlock, 'b'));
  EXPECT_EQ(rig.total(), 2 * kBlock);
}

TEST(InlineData, OfSeveralFilesComesInOneCall) {
  InlineRig rig;
  proto::WriteExtentsRequest both = rig.request("/file", {0}, std::string(kBlock, 'a'));
  const proto::WriteExtentsRequest second = rig.request("/other", {0}, std::string(100, 'b'));
  proto::FileExtents& more = *both.add_more();
  more.set_inode(second.inode());
  *more.mutable_extents() = second.extents();
  more.set_inline_data(second.inline_data());
  more.set_inline_crc(second.inline_crc());
  KINTSUGI_ASSERT_OK(rig.write(both));
  EXPECT_EQ(rig.kept("/file", 0, kBlock), std::string(kBlock, 'a'));
  EXPECT_EQ(rig.kept("/other", 0, 100), std::string(100, 'b'));
  // One of them is gone: the other is written.
  KINTSUGI_ASSERT_OK(rig.remove("/file"));
  both.mutable_more(0)->set_inline_data(std::string(100, 'c'));
  both.mutable_more(0)->set_inline_crc(crc32c(std::as_bytes(std::span(both.more(0).inline_data()))));
  KINTSUGI_ASSERT_OK(rig.write(both));
  EXPECT_EQ(rig.kept("/other", 0, 100), std::string(100, 'c'));
  EXPECT_EQ(rig.total(), 100u);
}

TEST(InlineData, OfAFileThatIsNamedTwiceInOneCallIsRefused) {
  InlineRig rig;
  KINTSUGI_ASSERT_OK(rig.write("/file", 0, std::string(kBlock, 'a')));
  proto::WriteExtentsRequest twice = rig.request("/file", {0}, std::string(kBlock, 'b'));
  proto::FileExtents& more = *twice.add_more();
  more.set_inode(twice.inode());
  *more.mutable_extents() = twice.extents();
  more.set_inline_data(std::string(kBlock, 'c'));
  more.set_inline_crc(crc32c(std::as_bytes(std::span(more.inline_data()))));
  EXPECT_EQ(rig.write(twice).code(), Code::kInvalidArgument);
  EXPECT_EQ(rig.kept("/file", 0, kBlock), std::string(kBlock, 'a'));
  EXPECT_EQ(rig.total(), kBlock);
}

TEST(InlineData, IsRefusedWhenItMakesNoSense) {
  InlineRig rig;
  const auto refused = [&](const auto& change) {
    proto::WriteExtentsRequest request = rig.request("/file", {0, 50'000}, std::string(2 * kBlock, 'a'));
    change(request);
    const Status status = rig.write(request);
    EXPECT_EQ(rig.total(), 0u);
    EXPECT_EQ(rig.open("/file")->extents_size(), 1);
    return status.code();
  };
  EXPECT_EQ(refused([](auto& request) { request.set_inline_crc(7); }), Code::kCorrupt);
  EXPECT_EQ(refused([](auto& request) { request.mutable_extents(0)->set_length(kBlock + 1); }),
            Code::kInvalidArgument);
  EXPECT_EQ(refused([](auto& request) { request.mutable_extents(1)->set_length(UINT64_MAX); }),
            Code::kInvalidArgument);
  EXPECT_EQ(refused([](auto& request) { request.mutable_extents()->RemoveLast(); }), Code::kInvalidArgument);
  EXPECT_EQ(refused([](auto& request) { request.mutable_extents(1)->set_file_offset(10); }),
            Code::kInvalidArgument);
  EXPECT_EQ(
      refused([](auto& request) { request.mutable_inline_data()->resize(proto::kMaxInlineFileBytes + 1); }),
      Code::kInvalidArgument);
  const uint64_t stripe = rig.open("/other")->extents(0).stripe_id();
  EXPECT_EQ(refused([&](auto& request) { request.mutable_extents(0)->set_stripe_id(stripe); }),
            Code::kInvalidArgument)
      << "the bytes of a stripe that is another file's";
}

TEST(InlineData, GoesElsewhereWhenThereIsTooMuchOfIt) {
  InlineRig rig({.inline_bytes = 3 * kBlock});
  for (uint64_t i = 0; i < 3; ++i)
    KINTSUGI_ASSERT_OK(rig.write("/file", i * kBlock, std::string(kBlock, 'a')));
  EXPECT_EQ(rig.write("/file", 3 * kBlock, std::string(kBlock, 'a')).code(), Code::kLimitExceeded);
  // The file is handed out to be written anew although it has few extents, since the metadata keeps more than half of what it may.
  rig.pass(6);
  EXPECT_EQ(rig.meta->state().repairs.compactions.take([](InodeId) { return true; }, 10),
            std::vector{InodeId{rig.inode("/file")}});
}

TEST(InlineData, LeavesTheMetadataWhileTheRestOfTheFileStays) {
  InlineRig rig;
  KINTSUGI_ASSERT_OK(rig.write("/file", 20'000, std::string(kBlock, 'a')));
  const auto before = *rig.open("/file");
  ASSERT_EQ(before.extents_size(), 3);
  const auto allocated = rig.allocate("/file", 0, "", kBlock);
  ASSERT_TRUE(allocated);
  const proto::SealedStripe sealed = rig.MetaServerRig::write(*allocated, kBlock);
  proto::WriteExtentsRequest move;
  move.set_inode(before.attributes().inode());
  move.set_upload_id(allocated->upload_id());
  *move.add_sealed() = sealed;
  *move.mutable_replaced() = before.extents();
  *move.mutable_extents() = before.extents();
  move.mutable_extents(1)->set_stripe_id(sealed.stripe().stripe_id());
  move.mutable_extents(1)->set_stripe_offset(0);
  // Nobody gets at bytes of a stripe that are not the file's.
  proto::WriteExtentsRequest thief = move;
  thief.mutable_extents(2)->set_stripe_offset(0);
  EXPECT_EQ(rig.write(thief).code(), Code::kInvalidArgument);
  thief = move;
  thief.mutable_extents(0)->set_stripe_id(rig.open("/other")->extents(0).stripe_id());
  EXPECT_EQ(rig.write(thief).code(), Code::kInvalidArgument);
  KINTSUGI_ASSERT_OK(rig.write(move));
  const auto after = *rig.open("/file");
  ASSERT_EQ(after.extents_size(), 3);
  EXPECT_EQ(after.extents(0).stripe_id(), before.extents(0).stripe_id());
  EXPECT_EQ(after.extents(1).stripe_id(), sealed.stripe().stripe_id());
  EXPECT_EQ(after.extents(2).stripe_id(), before.extents(0).stripe_id());
  EXPECT_EQ(rig.total(), 0u);
  EXPECT_EQ(rig.fsck().problems_size(), 0);
}

TEST(InlineData, ComesInPagesWhenAFileHasMuchOfIt) {
  InlineRig rig;
  const uint64_t piece = proto::kMaxInlineFileBytes;
  for (uint64_t i = 0; i < 40; ++i)
    KINTSUGI_ASSERT_OK(rig.write("/file", i * piece, std::string(piece, static_cast<char>('a' + i))));
  const auto page = *rig.open("/file");
  EXPECT_TRUE(page.more());
  EXPECT_LT(page.ByteSizeLong(), kMaxInlineBytesOfOpenRead + 64 * 1024);
  EXPECT_EQ(rig.kept("/file", 39 * piece, piece), std::string(piece, static_cast<char>('a' + 39)));
}

}  // namespace
}  // namespace kintsugi::metaserver
