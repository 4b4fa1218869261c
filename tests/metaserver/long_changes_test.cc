// What concerns very many extents of a file is done in steps, so that the thread that serves everybody is held up by none of them; and
// what a crash leaves of it is the first part, which a repetition completes.
#include <optional>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <gtest/gtest.h>

#include "common/base/crc32c.h"
#include "metaserver/namespace/changes.h"
#include "metaserver/schema/extents.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

constexpr uint64_t kExtents = 6000, kApart = 10, kSize = kExtents * kApart;
constexpr uint64_t kLeastSteps = kExtents / kMaxExtentsAStep;

class LongChanges : public MetaServerRig, public testing::Test {
 protected:
  void SetUp() override {
    KINTSUGI_ASSERT_OK(make_directory("/d"));
    KINTSUGI_ASSERT_OK(make_file("/d/f"));
  }
  /// A file of extents of one byte each, with holes between them.
  Status make_file(const std::string& path) {
    KINTSUGI_TRY(put(path, 1, 1));
    proto::WriteExtentsRequest request;
    request.set_inode(inode(path));
    for (uint64_t i = 0; i < kExtents; ++i) {
      proto::Extent& extent = *request.add_extents();
      extent.set_file_offset(i * kApart);
      extent.set_length(1);
    }
    request.set_size_at_least(kSize);
    const std::string bytes(kExtents, 'x');
    request.set_inline_data(bytes);
    request.set_inline_crc(crc32c(std::as_bytes(std::span(bytes))));
    return status_of(call<proto::WriteExtentsResponse>(rpc::Method::kWriteExtents, request));
  }
  uint64_t inode(const std::string& path) { return open(path)->attributes().inode(); }
  std::vector<proto::Extent> extents(const std::string& path) {
    const InodeId id{inode(path)};
    std::vector<proto::Extent> found;
    scan_extents(*store, content_of(id, load_inode(*store, id)), uint64_t{0},
                 [&](const proto::Extent& extent) {
                   found.push_back(extent);
                   return true;
                 });
    return found;
  }
  proto::WriteExtentsRequest punch(const std::string& path, uint64_t begin, uint64_t end) {
    proto::WriteExtentsRequest request;
    request.set_inode(inode(path));
    proto::Extent& hole = *request.add_extents();
    hole.set_file_offset(begin);
    hole.set_length(end - begin);
    return request;
  }
  /// A stripe in place of the first `length` bytes of the file.
  proto::WriteExtentsRequest overwrite(const std::string& path, uint64_t length) {
    const auto allocated = allocate(path);
    proto::WriteExtentsRequest request;
    request.set_inode(inode(path));
    request.set_upload_id(allocated->upload_id());
    *request.add_sealed() = write(*allocated, length);
    proto::Extent& extent = *request.add_extents();
    extent.set_length(length);
    extent.set_stripe_id(allocated->stripe().stripe_id());
    return request;
  }
  Status send(const proto::WriteExtentsRequest& request) {
    return status_of(call<proto::WriteExtentsResponse>(rpc::Method::kWriteExtents, request));
  }
  Status truncate(const std::string& path, uint64_t size) {
    proto::SetAttributesRequest request;
    request.set_inode(inode(path));
    request.set_size(size);
    return status_of(call<proto::InodeResponse>(rpc::Method::kSetAttributes, request));
  }
  template <class Request>
  void in_background(rpc::Method method, Request request) {
    const auto run = [](LongChanges& rig, rpc::Method method, Request request) -> asio::awaitable<void> {
      proto::Empty ignored;
      rig.ended_ = co_await rig.call_async(method, request, ignored);
    };
    ended_.reset();
    asio::co_spawn(client_node.runtime().executor, run(*this, method, std::move(request)), asio::detached);
  }
  /// Batches that became durable since the last call.
  uint64_t batches() { return store->position() - std::exchange(position_, store->position()); }
  void snapshot(const std::string& name) {
    proto::CreateSnapshotRequest request;
    request.set_path("/d");
    request.set_name(name);
    ASSERT_TRUE(call<proto::Empty>(rpc::Method::kCreateSnapshot, request));
  }

  std::optional<Status> ended_;
  uint64_t position_ = 0;
};

TEST_F(LongChanges, APunchIsDoneInSteps) {
  batches();
  KINTSUGI_ASSERT_OK(send(punch("/d/f", 5, kSize - 5)));
  EXPECT_GE(batches(), kLeastSteps);
  EXPECT_EQ(extents("/d/f").size(), 1u) << "the byte before the hole";
  const auto found = open("/d/f");
  EXPECT_EQ(found->attributes().size(), kSize);
  EXPECT_EQ(found->attributes().used_bytes(), 1u);
  const StripeId stripe{extents("/d/f").front().stripe_id()};
  KINTSUGI_ASSERT_OK(send(punch("/d/f", 0, kSize)));
  EXPECT_FALSE(this->stripe(stripe)) << "nobody names it any more";
}

TEST_F(LongChanges, OthersAreServedWhileAPunchIsUnderWay) {
  in_background(rpc::Method::kWriteExtents, punch("/d/f", 0, kSize));
  simulation.run_for(1ms);
  ASSERT_FALSE(ended_);
  EXPECT_TRUE(exists("/d/f"));
  EXPECT_FALSE(ended_) << "who asks meanwhile does not wait for all of it";
  const auto left = extents("/d/f");
  EXPECT_LT(left.size(), kExtents);
  ASSERT_FALSE(left.empty());
  EXPECT_EQ(left.back().file_offset(), kSize - kApart) << "it begins at the front";
  simulation.run_for(1s);
  ASSERT_TRUE(ended_);
  KINTSUGI_EXPECT_OK(*ended_);
  EXPECT_TRUE(extents("/d/f").empty());
}

TEST_F(LongChanges, AFileIsCutOffInStepsFromItsEnd) {
  batches();
  KINTSUGI_ASSERT_OK(truncate("/d/f", 15));
  EXPECT_GE(batches(), kLeastSteps);
  EXPECT_EQ(extents("/d/f").size(), 2u);
  EXPECT_EQ(open("/d/f")->attributes().size(), 15u);
  EXPECT_EQ(open("/d/f")->attributes().used_bytes(), 2u);
}

TEST_F(LongChanges, ACrashWhileAFileIsCutOffLeavesALongerOneThatARepetitionCutsOff) {
  proto::SetAttributesRequest request;
  request.set_inode(inode("/d/f"));
  request.set_size(15);
  in_background(rpc::Method::kSetAttributes, request);
  simulation.run_for(1ms);
  ASSERT_FALSE(ended_);
  restart();
  const uint64_t size = open("/d/f")->attributes().size();
  EXPECT_LT(size, kSize);
  EXPECT_GT(size, 15u);
  EXPECT_LE(extents("/d/f").back().file_offset(), size);
  EXPECT_EQ(extents("/d/f").size(), (size + kApart - 1) / kApart) << "nothing before its end is missing";
  KINTSUGI_ASSERT_OK(truncate("/d/f", 15));
  EXPECT_EQ(extents("/d/f").size(), 2u);
}

TEST_F(LongChanges, AStripeTakesThePlaceOfVeryManyExtentsInStepsAndIsOneExtentInTheEnd) {
  const auto request = overwrite("/d/f", kSize - 5 * kApart);
  const StripeId stripe{request.extents(0).stripe_id()};
  batches();
  in_background(rpc::Method::kWriteExtents, request);
  simulation.run_for(2ms);
  ASSERT_FALSE(ended_);
  const auto midway = extents("/d/f");
  EXPECT_EQ(midway.front().stripe_id(), stripe.value);
  EXPECT_EQ(midway.size(), 1 + kExtents - (midway.front().length() + kApart - 1) / kApart)
      << "behind what is written is what was there before";
  simulation.run_for(1s);
  ASSERT_TRUE(ended_);
  KINTSUGI_ASSERT_OK(*ended_);
  EXPECT_GE(batches(), kLeastSteps);
  EXPECT_EQ(extents("/d/f").size(), 6u);
  EXPECT_EQ(this->stripe(stripe)->references(), 1u);
  EXPECT_EQ(this->stripe(stripe)->live_bytes(), kSize - 5 * kApart);
  EXPECT_EQ(meta->stats().live_uploads, 0u);
  EXPECT_EQ(fsck().lost_stripes(), 0u);
}

TEST_F(LongChanges, AWriteThatEndsHalfwayLosesNothingWhenItsUploadExpires) {
  const auto request = overwrite("/d/f", kSize - 5 * kApart);
  const StripeId stripe{request.extents(0).stripe_id()};
  in_background(rpc::Method::kWriteExtents, request);
  simulation.run_for(2ms);
  ASSERT_FALSE(ended_);
  restart();
  const auto left = extents("/d/f");
  ASSERT_EQ(left.front().stripe_id(), stripe.value);
  ASSERT_GT(left.size(), 6u);
  pass(120);
  bool attached = false;
  Reader(*store).scan(keys::all(keys::Kind::kUploadStripe),
                      [&](std::string_view, std::string_view) { return !(attached = true); });
  EXPECT_FALSE(attached) << "its upload was given up";
  ASSERT_TRUE(this->stripe(stripe)) << "the file has its first bytes";
  EXPECT_EQ(this->stripe(stripe)->references(), 1u);
  EXPECT_EQ(extents("/d/f").size(), left.size());
  KINTSUGI_ASSERT_OK(remove("/d/f"));
  pass(2);
  EXPECT_FALSE(this->stripe(stripe));
}

TEST_F(LongChanges, AWriteThatEndedHalfwayIsCompletedByARepetition) {
  const auto request = overwrite("/d/f", kSize - 5 * kApart);
  in_background(rpc::Method::kWriteExtents, request);
  simulation.run_for(2ms);
  ASSERT_FALSE(ended_);
  restart();
  heartbeat_all();
  KINTSUGI_ASSERT_OK(send(request));
  EXPECT_EQ(extents("/d/f").size(), 6u);
  EXPECT_EQ(stripe(StripeId{request.extents(0).stripe_id()})->references(), 1u);
  EXPECT_EQ(meta->stats().live_uploads, 0u);
}

TEST_F(LongChanges, AWriteWhoseLastStepIsRefusedLeavesNoStripeToAnUploadThatNobodyKnows) {
  // Tickets of the process before this one have expired: an upload that is not known is none.
  simulation.run_for(MetaServerOptions{}.upload_ttl + 1s);
  pass(3);
  const auto request = overwrite("/d/f", kSize - 5 * kApart);
  const StripeId stripe{request.extents(0).stripe_id()};
  // The file has a single byte more in the end than there may be.
  proto::SetQuotaRequest quota;
  quota.set_path("/d");
  quota.set_max_bytes(kSize - 5 * kApart + 5 - 1);
  ASSERT_TRUE(call<proto::Empty>(rpc::Method::kSetQuota, quota));
  pass(5);
  EXPECT_EQ(send(request).code(), Code::kQuota);
  ASSERT_EQ(extents("/d/f").front().stripe_id(), stripe.value);
  proto::AbortUploadRequest abort;
  abort.set_upload_id(request.upload_id());
  ASSERT_TRUE(call<proto::Empty>(rpc::Method::kAbortUpload, abort));
  pass(120);
  bool attached = false;
  Reader(*store).scan(keys::all(keys::Kind::kUploadStripe),
                      [&](std::string_view, std::string_view) { return !(attached = true); });
  EXPECT_FALSE(attached) << "its upload was given up";
  ASSERT_TRUE(this->stripe(stripe)) << "the file has its first bytes";
  KINTSUGI_ASSERT_OK(remove("/d/f"));
  pass(2);
  EXPECT_FALSE(this->stripe(stripe));
}

TEST_F(LongChanges, ASnapshotKeepsWhatIsPunchedInSteps) {
  snapshot("s");
  KINTSUGI_ASSERT_OK(send(punch("/d/f", 0, kSize)));
  EXPECT_TRUE(extents("/d/f").empty());
  const auto kept = open("/d/.snapshots/s/f");
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->attributes().used_bytes(), kExtents);
  EXPECT_EQ(kept->extents_size(), kMaxExtentsOfOpenRead);
  EXPECT_TRUE(kept->more());
  EXPECT_EQ(fsck().lost_stripes(), 0u);
}

TEST_F(LongChanges, ACopyGoesOnFromCallToCall) {
  KINTSUGI_ASSERT_OK(make_file("/d/g"));
  proto::CopyExtentsRequest request;
  request.set_from(inode("/d/f"));
  request.set_to(inode("/d/g"));
  uint64_t calls = 0;
  for (uint64_t at = 0; at < kSize; ++calls) {
    request.set_from_offset(at);
    request.set_to_offset(at);
    request.set_length(kSize - at);
    const auto copied = call<proto::CopyExtentsResponse>(rpc::Method::kCopyExtents, request);
    ASSERT_TRUE(copied);
    ASSERT_GT(copied->length(), 0u);
    at += copied->length();
  }
  EXPECT_GE(calls, kLeastSteps);
  const auto from = extents("/d/f"), to = extents("/d/g");
  ASSERT_EQ(from.size(), to.size());
  for (size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(from[i].file_offset(), to[i].file_offset());
    EXPECT_EQ(from[i].stripe_id(), to[i].stripe_id());
  }
}

TEST_F(LongChanges, AStepThatComesAfterItsRepetitionIsLeftOut) {
  // Two calls carry the same change out; what the session does after it has heard of the end of one is not undone by the other.
  auto request = punch("/d/f", 0, kSize);
  request.mutable_change()->set_session(5);
  request.mutable_change()->set_number(1);
  request.mutable_change()->set_generation(1);
  EXPECT_FALSE(is_over(*store, request.change()));
  KINTSUGI_ASSERT_OK(send(request));
  EXPECT_TRUE(is_over(*store, request.change()));
  proto::Change later = request.change();
  later.set_number(1 + proto::kMaxChangesUnderWay);
  EXPECT_FALSE(is_over(*store, later));
  Transaction transaction(*store);
  note_change(transaction, later, InodeId{1});
  KINTSUGI_ASSERT_OK(simulation.run(store->commit(transaction.take())));
  EXPECT_TRUE(is_over(*store, request.change())) << "its place is another's: it ended long ago";
  later.set_number(2);
  later.set_generation(1 + proto::kGenerations);
  EXPECT_FALSE(is_over(*store, later)) << "what is remembered is of a process before";
}

TEST_F(LongChanges, AWriteThatIsRepeatedWhileItIsUnderWayIsAnsweredWithTheFileAsItIsInTheEnd) {
  constexpr uint64_t kEnd = kSize + 100;
  for (int after = 0; after < 20; ++after) {
    SCOPED_TRACE(after);
    const std::string path = fmt::format("/d/g{}", after);
    KINTSUGI_ASSERT_OK(make_file(path));
    auto request = overwrite(path, kEnd);
    request.set_size_at_least(kEnd);
    request.mutable_change()->set_session(kOwner);
    request.mutable_change()->set_number(static_cast<uint64_t>(after + 1));
    request.mutable_change()->set_generation(1);
    in_background(rpc::Method::kWriteExtents, request);
    simulation.run_for(1ms + after * 300us);
    if (ended_) break;
    // The connection broke, say, and its client sends it once more.
    const auto again = call<proto::WriteExtentsResponse>(rpc::Method::kWriteExtents, request);
    ASSERT_TRUE(again) << again.error();
    EXPECT_EQ(again->attributes().inode(), request.inode());
    EXPECT_EQ(again->attributes().size(), kEnd);
    ASSERT_TRUE(simulation.run_until([&] { return ended_.has_value(); }, 10s));
    KINTSUGI_EXPECT_OK(*ended_);
    EXPECT_EQ(open(path)->attributes().size(), kEnd);
  }
}

/// Counts the keys that scans visit.
class Counting final : public ReadView {
 public:
  explicit Counting(const ReadView& store) : store_(store) {}
  std::optional<std::string> get(std::string_view key) const override { return store_.get(key); }
  void scan(std::string_view begin, std::string_view end,
            const std::function<bool(std::string_view, std::string_view)>& visit) const override {
    ++scans;
    store_.scan(begin, end, visit);
  }
  mutable size_t scans = 0;

 private:
  const ReadView& store_;
};

TEST_F(LongChanges, ManyExtentsAreMadeBehindOneAnotherWithOneLookAtWhatIsThere) {
  const InodeId id{inode("/d/f")};
  const auto stored = load_inode(*store, id);
  Counting view(*store);
  Transaction transaction(view);
  ExtentWriter writer(transaction, content_of(id, stored));
  for (uint64_t i = 0; i < 1000; ++i) {
    proto::Extent extent;
    extent.set_file_offset(2 * kSize + i * kApart);
    extent.set_length(5);
    extent.set_stripe_id(77);
    writer.put(extent);
  }
  // Each would pass over all keys that were removed behind it.
  EXPECT_LE(view.scans, 2u);
}

}  // namespace
}  // namespace kintsugi::metaserver
