// Errors on their way to another daemon.
#include <gtest/gtest.h>

#include "common/rpc/error_frame.h"

namespace kintsugi::rpc {
namespace {

constexpr Culprit kCulprit{.server = ServerId{7}, .chunk = {StripeId{81}, 3}};

Status sent(std::string text) {
  const std::string bytes =
      encode_error(Status{Code::kCorrupt, std::move(text)}.blame(kCulprit)).SerializeAsString();
  const Status received = decode_error(Code::kCorrupt, std::as_bytes(std::span(bytes)));
  EXPECT_EQ(received.culprit(), kCulprit) << received;
  return received;
}

TEST(RpcErrorFrame, ATextInUtf8ArrivesAsItIs) {
  for (const std::string text :
       {"block 12: checksum mismatch", "/caf\xc3\xa9", "\xe2\x82\xac \xf0\x9f\x8f\xba"})
    EXPECT_EQ(sent(text).message(), text);
}

TEST(RpcErrorFrame, BytesThatAreNoTextHideNeitherTheRestNorTheCulprit) {
  EXPECT_EQ(sent("name \xff\xfe is bad").message(), "name ?? is bad");
  EXPECT_EQ(sent("\xc3").message(), "?");                         // cut off
  EXPECT_EQ(sent("\xc0\x80").message(), "??");                    // longer than need be
  EXPECT_EQ(sent("\xed\xa0\x80").message(), "???");               // a surrogate
  EXPECT_EQ(sent("\xf4\x90\x80\x80 end").message(), "???? end");  // beyond Unicode
}

TEST(RpcErrorFrame, ALongTextIsCutBetweenCharacters) {
  EXPECT_EQ(sent(std::string(5000, 'x')).message(), std::string(4096, 'x'));
  EXPECT_EQ(sent(std::string(4095, 'x') + "\xe2\x82\xac").message(), std::string(4095, 'x'));
}

}  // namespace
}  // namespace kintsugi::rpc
