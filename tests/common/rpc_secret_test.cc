#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/rpc/secret.h"

namespace kintsugi::rpc {
namespace {

class SecretFile : public ::testing::Test {
 protected:
  SecretFile() {
    char name[] = "/tmp/kintsugi_secret_XXXXXX";
    directory_ = ::mkdtemp(name);
    path_ = directory_ + "/secret";
  }
  ~SecretFile() override { std::filesystem::remove_all(directory_); }

  void write(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path_) << text;
    ::chmod(path_.c_str(), mode);
  }

  std::string directory_, path_;
};

Mac sample_mac(const Secret& secret) {
  return secret.mac("test", std::as_bytes(std::span(std::string_view("abc"))));
}

TEST_F(SecretFile, IsReadBackAsItWasCreated) {
  Result<Secret> made = Secret::create(path_);
  ASSERT_TRUE(made) << made.error();
  struct stat info{};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  Result<Secret> loaded = Secret::load(path_);
  ASSERT_TRUE(loaded) << loaded.error();
  EXPECT_EQ(sample_mac(*made), sample_mac(*loaded));
  EXPECT_NE(sample_mac(*made), sample_mac(Secret{}));
}

TEST_F(SecretFile, IsNeverReplaced) {
  Result<Secret> first = Secret::create(path_);
  ASSERT_TRUE(first);
  EXPECT_EQ(Secret::create(path_).error().code(), Code::kAlreadyExists);
  EXPECT_EQ(sample_mac(*Secret::load(path_)), sample_mac(*first));
}

TEST_F(SecretFile, IsRefusedWhenOthersMayReadIt) {
  std::string good(64, 'a');
  good += '\n';
  for (mode_t mode : {0640, 0604, 0644, 0620}) {
    write(good, mode);
    Result<Secret> loaded = Secret::load(path_);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code(), Code::kPermissionDenied);
    EXPECT_NE(loaded.error().message().find(path_), std::string::npos);
  }
}

TEST_F(SecretFile, IsRefusedUnlessItHolds64HexDigitsAndANewline) {
  std::string good(64, 'a');
  std::vector<std::string> refused = {"", good};
  for (const char* tail : {"\n\n", "a\n", "\r", "\r\n"})
    refused.push_back(good + tail);
  for (const char* tail : {"\n", "g\n", " \n"})
    refused.push_back(std::string(63, 'a').append(tail));
  refused.push_back(std::string(1 << 20, 'a'));
  for (const std::string& text : refused) {
    write(text);
    Result<Secret> loaded = Secret::load(path_);
    ASSERT_FALSE(loaded) << text.size();
    EXPECT_EQ(loaded.error().code(), Code::kInvalidArgument);
  }
  write(good + "\n");
  EXPECT_TRUE(Secret::load(path_));
  EXPECT_EQ(Secret::load(path_ + "x").error().code(), Code::kNotFound);
  EXPECT_FALSE(Secret::load(directory_));
}

TEST(Secret, DerivesAnotherKeyForEveryPurpose) {
  Secret secret;
  auto message = std::as_bytes(std::span(std::string_view("abc")));
  EXPECT_NE(secret.mac("handshake", message), secret.mac("capability", message));
  EXPECT_EQ(secret.mac("handshake", message), secret.mac("handshake", message));
}

class Capability : public ::testing::Test {
 protected:
  static Secret secret(int n) {
    std::array<std::byte, 32> key;
    key.fill(static_cast<std::byte>(n));
    return Secret(key);
  }
  Code check(const std::string& capability, ChunkId chunk, uint32_t operation, WallTime now) {
    return check_capability(secret(1), capability, chunk, operation, now).code();
  }

  ChunkId chunk_{StripeId{81}, 3};
  WallTime now_ = WallTime(1'700'000'000s);
  std::string capability_ = make_capability(secret(1), chunk_, kOpRead | kOpRepair, now_ + 60s);
};

TEST_F(Capability, AllowsItsOperationsOnItsChunkUntilItExpires) {
  EXPECT_EQ(capability_.size(), 44u);
  EXPECT_EQ(check(capability_, chunk_, kOpRead, now_), Code::kOk);
  EXPECT_EQ(check(capability_, chunk_, kOpRepair, now_ + 59s), Code::kOk);
  EXPECT_EQ(check(capability_, chunk_, kOpRead, now_ + 60s), Code::kPermissionDenied);
}

TEST_F(Capability, DeniesOtherChunksAndOperations) {
  EXPECT_EQ(check(capability_, {StripeId{81}, 4}, kOpRead, now_), Code::kPermissionDenied);
  EXPECT_EQ(check(capability_, {StripeId{82}, 3}, kOpRead, now_), Code::kPermissionDenied);
  EXPECT_EQ(check(capability_, chunk_, kOpWrite, now_), Code::kPermissionDenied);
  EXPECT_EQ(check(capability_, chunk_, kOpRead | kOpWrite, now_), Code::kPermissionDenied);
  EXPECT_EQ(check(capability_, chunk_, 0, now_), Code::kPermissionDenied);
}

TEST_F(Capability, DeniesWhatAnotherSecretSigned) {
  std::string forged = make_capability(secret(2), chunk_, kOpRead, now_ + 60s);
  EXPECT_EQ(check(forged, chunk_, kOpRead, now_), Code::kPermissionDenied);
}

TEST_F(Capability, DeniesEveryChangedBitAndLength) {
  for (size_t bit = 0; bit < 8 * capability_.size(); ++bit) {
    std::string forged = capability_;
    forged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_EQ(check(forged, chunk_, kOpRead, now_), Code::kPermissionDenied) << "bit " << bit;
  }
  for (size_t size : {size_t{0}, size_t{1}, size_t{43}}) {
    EXPECT_EQ(check(capability_.substr(0, size), chunk_, kOpRead, now_), Code::kPermissionDenied);
  }
  EXPECT_EQ(check(capability_ + "x", chunk_, kOpRead, now_), Code::kPermissionDenied);
}

}  // namespace
}  // namespace kintsugi::rpc
