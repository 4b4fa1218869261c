#include <random>

#include <gtest/gtest.h>

#include "common/rpc/frame.h"
#include "tests/common/frame_field.h"
#include "tests/expect_ok.h"

namespace kintsugi::rpc {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

FrameHeader sample_header() {
  return {.method = Method::kReadChunk,
          .flags = kFlagRequest | kFlagStream,
          .payload_bytes = 4096,
          .timeout_ms = 1500,
          .request_id = 0x1122334455667788,
          .trace_id = 1,
          .span_id = 2,
          .path = 3,
          .status = Code::kOk};
}

TEST(RpcFrame, ComesBackAsItWasEncoded) {
  FrameHeader in = sample_header();
  auto bytes = encode_frame_header(in, bytes_of("message"));
  Result<FrameHeader> out = decode_frame_header(bytes);
  ASSERT_TRUE(out) << out.error();
  EXPECT_EQ(out->method, in.method);
  EXPECT_EQ(out->flags, in.flags);
  EXPECT_EQ(out->header_bytes, 7u);
  EXPECT_EQ(out->payload_bytes, in.payload_bytes);
  EXPECT_EQ(out->timeout_ms, in.timeout_ms);
  EXPECT_EQ(out->request_id, in.request_id);
  EXPECT_EQ(out->trace_id, in.trace_id);
  EXPECT_EQ(out->span_id, in.span_id);
  EXPECT_EQ(out->path, in.path);
  KINTSUGI_EXPECT_OK(check_message(*out, bytes_of("message")));
}

TEST(RpcFrame, HasTheDocumentedLayout) {
  auto bytes = encode_frame_header(sample_header(), bytes_of("message"));
  EXPECT_EQ(std::memcmp(bytes.data(), "KTSG", 4), 0);
  EXPECT_EQ(bytes[4], std::byte{2});
  EXPECT_EQ(bytes[6], std::byte{61});
  EXPECT_EQ(bytes[12], std::byte{7});
  EXPECT_EQ(bytes[24], std::byte{0x88});
}

TEST(RpcFrame, RefusesAnotherMagicOrVersion) {
  auto bytes = encode_frame_header(sample_header(), {});
  bytes[0] = std::byte{'X'};
  EXPECT_EQ(decode_frame_header(bytes).error().code(), Code::kCorrupt);
  bytes = encode_frame_header(sample_header(), {});
  bytes[4] = std::byte{9};
  EXPECT_NE(decode_frame_header(bytes).error().message().find("version 9"), std::string::npos);
}

TEST(RpcFrame, RefusesSizesJustAboveTheLimits) {
  auto bytes = encode_frame_header(sample_header(), {});
  overwrite<uint32_t>(bytes, 12, kMaxHeaderBytes);
  overwrite<uint32_t>(bytes, 16, kMaxPayloadBytes);
  EXPECT_TRUE(decode_frame_header(bytes));
  overwrite<uint32_t>(bytes, 12, kMaxHeaderBytes + 1);
  EXPECT_EQ(decode_frame_header(bytes).error().code(), Code::kLimitExceeded);
  overwrite<uint32_t>(bytes, 12, 0);
  overwrite<uint32_t>(bytes, 16, kMaxPayloadBytes + 1);
  EXPECT_EQ(decode_frame_header(bytes).error().code(), Code::kLimitExceeded);
}

TEST(RpcFrame, RefusesUnknownFlagsAndStatusCodes) {
  auto bytes = encode_frame_header(sample_header(), {});
  overwrite<uint16_t>(bytes, 8, 8);
  EXPECT_FALSE(decode_frame_header(bytes));
  bytes = encode_frame_header(sample_header(), {});
  overwrite<uint16_t>(bytes, 10, static_cast<uint16_t>(kLastCode) + 1);
  EXPECT_FALSE(decode_frame_header(bytes));
}

TEST(RpcFrame, NoticesEveryFlippedBitOfTheHeaderBeforeAnythingElseHasCome) {
  const auto frame = encode_frame_header(sample_header(), bytes_of("a protobuf header"));
  for (size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    auto broken = frame;
    broken[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(decode_frame_header(broken)) << "bit " << bit;
  }
}

TEST(RpcFrame, NoticesEveryFlippedBitOfTheMessage) {
  const std::string message = "a protobuf header";
  const auto header = decode_frame_header(encode_frame_header(sample_header(), bytes_of(message)));
  ASSERT_TRUE(header);
  for (size_t bit = 0; bit < 8 * message.size(); ++bit) {
    std::string broken = message;
    broken[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_EQ(check_message(*header, bytes_of(broken)).code(), Code::kCorrupt) << "bit " << bit;
  }
}

TEST(RpcFrame, DecodesNothingThatBreaksTheLimitsFromAnyBytes) {
  constexpr uint64_t kSeed = 20240607;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  size_t accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::array<std::byte, kFrameHeaderBytes> bytes = encode_frame_header(sample_header(), {});
    if (i % 2 == 0) {
      for (std::byte& b : bytes)
        b = static_cast<std::byte>(random());
    } else {
      for (uint64_t n = 1 + random() % 4; n > 0; --n)
        overwrite(bytes, random() % 60, static_cast<std::byte>(random()));
    }
    Result<FrameHeader> header = decode_frame_header(bytes);
    if (!header) continue;
    ++accepted;
    ASSERT_LE(header->header_bytes, kMaxHeaderBytes);
    ASSERT_LE(header->payload_bytes, kMaxPayloadBytes);
    ASSERT_LE(header->status, kLastCode);
  }
  EXPECT_GT(accepted, 1000u);  // else the mutations test nothing but the magic
}

}  // namespace
}  // namespace kintsugi::rpc
