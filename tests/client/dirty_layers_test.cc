#include "client/lib/dirty/dirty_layers.h"

#include <gtest/gtest.h>

namespace kintsugi::client {
namespace {

constexpr uint64_t kInode = 7;

struct Layers {
  ProcessDirtyMemory memory{DirtyBuffers::region_bytes(1 << 20)};
  DirtyBuffers buffers{memory};
  DirtyLayers dirty;

  void write(uint64_t offset, size_t length, char letter, int64_t at_ns, bool kill = false) {
    const std::vector<std::byte> bytes(length, static_cast<std::byte>(letter));
    ASSERT_EQ(dirty.newest().write(buffers, kInode, offset, bytes, at_ns, kill), length);
  }
  DirtyLayers::Layer freeze() { return dirty.add(dirty.newest().split({0, UINT64_MAX}, 1000)); }
  /// What a reader sees of the first bytes; a dot is not here.
  std::string seen(size_t length) const {
    std::string text(length, '.');
    std::vector<ByteRange> missing{{0, length}};
    dirty.overlay(0, std::as_writable_bytes(std::span(text)), missing);
    return text;
  }
};

TEST(DirtyLayers, NewerBytesLieOverOlderOnes) {
  Layers layers;
  layers.write(0, 6, 'a', 1);
  layers.freeze();
  layers.write(2, 2, 'b', 2);
  layers.freeze();
  layers.write(3, 4, 'c', 3);
  EXPECT_EQ(layers.seen(8), "aabcccc.");
  EXPECT_EQ(layers.dirty.end(), 7u);
  EXPECT_EQ(layers.dirty.bytes(), 12u);
  EXPECT_EQ(layers.dirty.next_data(0), 0u);
  EXPECT_EQ(layers.dirty.next_gap(0), 7u);

  layers.dirty.pop_first();
  EXPECT_EQ(layers.seen(8), "..bcccc.");
  EXPECT_EQ(layers.dirty.next_data(0), 2u);
}

TEST(DirtyLayers, AreCutWithTheFileAndALayerOfNothingIsNone) {
  Layers layers;
  layers.write(4, 2, 'a', 1);
  layers.freeze();
  layers.write(0, 4, 'b', 2);
  layers.dirty.cut(3);
  EXPECT_EQ(layers.seen(6), "bbb...");
  EXPECT_TRUE(layers.dirty.layers().empty());
}

TEST(DirtyLayers, SayWhatTheMetaserverWillSayOfTimeAndMode) {
  Layers layers;
  layers.write(0, 1, 'a', 50);
  layers.freeze();
  layers.write(1, 1, 'b', 70, true);
  proto::Attributes attributes;
  attributes.set_changed_ns(60);
  attributes.set_mode(06755);
  layers.dirty.apply_to(attributes);
  EXPECT_EQ(attributes.modified_ns(), 70);
  EXPECT_EQ(attributes.changed_ns(), 70);
  EXPECT_EQ(attributes.mode(), 0755u);
  EXPECT_TRUE(layers.dirty.kills_privileges());

  layers.dirty.keep_privileges();
  EXPECT_FALSE(layers.dirty.kills_privileges());
}

TEST(DirtyLayers, ThatAreGivenUpStayWhileTheyAreUnderWay) {
  Layers layers;
  layers.write(0, 1, 'a', 1);
  const auto uploaded = layers.freeze();
  uploaded->under_way = true;
  layers.write(1, 1, 'b', 2);
  layers.freeze();
  layers.write(2, 1, 'c', 3);
  layers.dirty.discard();
  EXPECT_TRUE(uploaded->discarded);
  ASSERT_EQ(layers.dirty.layers().size(), 1u);
  EXPECT_TRUE(layers.dirty.newest().empty());

  layers.dirty.erase(uploaded);
  EXPECT_TRUE(layers.dirty.empty());
}

TEST(DirtyLayers, APieceThatOverlapsWithWhatWasFoundBeforeComesInALayerOverIt) {
  Layers layers;
  const auto piece = [&](uint64_t offset, char letter) {
    DirtyPiece piece = layers.buffers.take(kInode, offset);
    const std::vector<std::byte> bytes(4, static_cast<std::byte>(letter));
    piece.put(offset, bytes, 1, false);
    return piece;
  };
  layers.dirty.recover(piece(0, 'a'));
  layers.dirty.recover(piece(8, 'b'));
  EXPECT_TRUE(layers.dirty.layers().empty());
  layers.dirty.recover(piece(2, 'c'));
  EXPECT_EQ(layers.dirty.layers().size(), 1u);
  EXPECT_TRUE(layers.dirty.has_failed());
  EXPECT_EQ(layers.seen(12), "aacccc..bbbb");
}

}  // namespace
}  // namespace kintsugi::client
