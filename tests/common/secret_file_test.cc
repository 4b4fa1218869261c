// The file of the cluster's secret while one secret follows another, and processes that follow the file.
#include "common/rpc/secret_file.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/rpc/private_file.h"
#include "common/rpc/secret.h"
#include "tests/common/rpc_rig.h"

namespace kintsugi::rpc {
namespace {

using Other = SecretKeys::Other;

const std::string kA(64, 'a'), kB(64, 'b');

SecretKey key_of(char digit) {
  SecretKey key;
  const int nibble = digit - 'a' + 10;
  key.fill(static_cast<std::byte>(nibble * 17));
  return key;
}

class TwoSecrets : public ::testing::Test {
 protected:
  TwoSecrets() {
    char name[] = "/tmp/kintsugi_two_secrets_XXXXXX";
    directory_ = ::mkdtemp(name);
    path_ = directory_ + "/secret";
  }
  ~TwoSecrets() override { std::filesystem::remove_all(directory_); }

  void write(const std::string& text, mode_t mode = 0600) const {
    std::filesystem::remove(path_);
    std::ofstream(path_) << text;
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
  }
  Secret loaded() const {
    Result<Secret> secret = Secret::load(path_);
    EXPECT_TRUE(secret) << secret.error();
    return secret ? *secret : Secret();
  }

  std::string directory_, path_;
};

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST_F(TwoSecrets, OneProvesAndBothAreAccepted) {
  const Secret a(key_of('a')), b(key_of('b')), c(key_of('c'));
  for (const auto& [text, kind] : {std::pair(kA + "\nnext " + kB + "\n", Other::kNext),
                                   std::pair(kA + "\nformer " + kB + "\n", Other::kFormer)}) {
    write(text);
    const Secret both = loaded();
    EXPECT_EQ(both.keys()->other_is, kind);
    EXPECT_EQ(both.mac("x", bytes("abc")), a.mac("x", bytes("abc")));
    EXPECT_TRUE(both.accepts("x", bytes("abc"), a.mac("x", bytes("abc"))));
    EXPECT_TRUE(both.accepts("x", bytes("abc"), b.mac("x", bytes("abc"))));
    EXPECT_FALSE(both.accepts("x", bytes("abc"), c.mac("x", bytes("abc"))));
    EXPECT_FALSE(both.accepts("x", bytes("abd"), b.mac("x", bytes("abc"))));
    EXPECT_EQ(both.id(), a.id());
    EXPECT_TRUE(both.accepts(a.id()) && both.accepts(b.id()));
    EXPECT_FALSE(both.accepts(c.id()));
    EXPECT_EQ(secret_text(*both.keys()), text);
  }
}

TEST_F(TwoSecrets, AnythingElseOnTheSecondLineIsRefusedInOneLine) {
  const std::string first = kA + "\n";
  const std::vector<std::string> seconds{"\n",
                                         kB,
                                         kB + "\n",
                                         "next " + kB,
                                         "next " + kB + "\n\n",
                                         "next  " + kB + "\n",
                                         "next " + kB + "b\n",
                                         "Next " + kB + "\n",
                                         "other " + kB + "\n",
                                         "next " + kB.substr(1) + "g\n",
                                         "next \n",
                                         "next\n",
                                         "former " + kA + "\n",
                                         "next " + kB + "\nformer " + kB + "\n",
                                         "next " + kB + "\r\n"};
  for (const std::string& second : seconds) {
    write(first + second);
    const Result<Secret> refused = Secret::load(path_);
    ASSERT_FALSE(refused) << second;
    EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
    EXPECT_NE(refused.error().message().find(path_), std::string::npos);
    EXPECT_EQ(refused.error().message().find('\n'), std::string::npos);
  }
}

TEST_F(TwoSecrets, AProcessTakesWhatTheFileSaysAndKeepsWhatItHadWhenThatIsNoSecret) {
  LogCapture log;
  const Secret a(key_of('a')), b(key_of('b'));
  write(kA + "\n");
  const Secret secret = loaded(), copy = secret;
  const uint64_t before = secret.shared().version();
  secret.shared().look(TimePoint(1h));
  EXPECT_EQ(secret.shared().version(), before) << "nothing has changed";

  write(kA + "\nnext " + kB + "\n");
  secret.shared().look(TimePoint(1h));
  EXPECT_FALSE(copy.accepts(b.id())) << "it was looked at just now";
  secret.shared().look(TimePoint(1h) + SharedKeys::kLookInterval);
  EXPECT_TRUE(copy.accepts(b.id())) << "copies share it";
  EXPECT_GT(secret.shared().version(), before);

  for (const std::string bad : {"", "no secret\n", "next\n"}) {
    write(bad);
    secret.shared().look_at_once();
    secret.shared().look_at_once();
    EXPECT_TRUE(copy.accepts(a.id()) && copy.accepts(b.id()));
    EXPECT_NE(secret.shared().complaint().find(path_), std::string::npos);
  }
  EXPECT_EQ(log.count("cannot be used, what it held before stays in use"), 3u) << "once for each";
  write(kB + "\n", 0644);
  secret.shared().look_at_once();
  EXPECT_EQ(copy.id(), a.id()) << "others may read it";
  ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
  secret.shared().look_at_once();
  EXPECT_EQ(copy.id(), b.id()) << "a mode that was put right is a change";
  EXPECT_EQ(secret.shared().complaint(), "");
  std::filesystem::remove(path_);
  secret.shared().look_at_once();
  EXPECT_EQ(copy.id(), b.id());
  EXPECT_FALSE(copy.accepts(a.id()));
}

TEST_F(TwoSecrets, AFileThatCouldNotBeOpenedForLackOfDescriptorsIsTriedAgain) {
  LogCapture log;
  write(kA + "\n");
  const Secret secret = loaded();
  write(kB + "\n");
  struct rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  struct rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  secret.shared().look_at_once();
  secret.shared().look_at_once();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(secret.id(), Secret(key_of('a')).id());
  EXPECT_EQ(log.count("cannot be used, what it held before stays in use"), 1u);
  secret.shared().look_at_once();
  EXPECT_EQ(secret.id(), Secret(key_of('b')).id());
  EXPECT_EQ(secret.shared().complaint(), "");
}

TEST_F(TwoSecrets, AFileIsFollowedAlsoWhenTheProcessGoesToAnotherDirectory) {
  write(kA + "\n");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(directory_);
  const Result<Secret> secret = Secret::load("secret");
  std::filesystem::current_path(before);
  ASSERT_TRUE(secret) << secret.error();
  write(kB + "\n");
  secret->shared().look_at_once();
  EXPECT_EQ(secret->id(), Secret(key_of('b')).id());
}

TEST_F(TwoSecrets, AFileIsReplacedAsAWholeAndAnInterruptionLeavesNothingInTheWay) {
  write(kA + "\n");
  const std::string unfinished = directory_ + "/.secret.kintsugi-new";
  std::ofstream(unfinished) << "half of a";
  std::ofstream(path_ + ".new") << "what its operator is about to move there";
  KINTSUGI_EXPECT_OK(replace_private_file(path_, "secret file", kB + "\n"));
  EXPECT_EQ(loaded().id(), Secret(key_of('b')).id());
  struct stat info{};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_FALSE(std::filesystem::exists(unfinished));
  EXPECT_TRUE(std::filesystem::exists(path_ + ".new")) << "it is not ours to remove";
  std::filesystem::create_symlink(path_, directory_ + "/link");
  KINTSUGI_EXPECT_OK(replace_private_file(directory_ + "/link", "secret file", kA + "\n"));
  EXPECT_TRUE(std::filesystem::is_symlink(directory_ + "/link"));
  EXPECT_EQ(loaded().id(), Secret(key_of('a')).id());
  EXPECT_EQ(replace_private_file(directory_ + "/none", "secret file", "x").code(), Code::kNotFound);
}

TEST_F(TwoSecrets, WhatEitherSignedIsAcceptedUntilOneIsDropped) {
  const Secret a(key_of('a'));
  const ChunkId chunk{StripeId{81}, 3};
  const WallTime now(1'700'000'000s);
  const std::string capability = make_capability(a, chunk, kOpRead, now + 60s);
  const auto checked = [&](const std::string& text) {
    write(text);
    return check_capability(loaded(), capability, chunk, kOpRead, now).code();
  };
  EXPECT_EQ(checked(kA + "\nnext " + kB + "\n"), Code::kOk);
  EXPECT_EQ(checked(kB + "\nformer " + kA + "\n"), Code::kOk);
  EXPECT_EQ(checked(kB + "\n"), Code::kPermissionDenied);
}

}  // namespace
}  // namespace kintsugi::rpc
