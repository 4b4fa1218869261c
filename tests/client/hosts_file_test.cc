#include "client/cli/hosts_file.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "client/cli/cli.h"
#include "client/cli/daemon_settings.h"
#include "client/cli/host_files.h"
#include "client/cli/local_daemon.h"
#include "common/rpc/secret.h"
#include "common/runtime/tls/tls_identity.h"
#include "tests/expect_ok.h"

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kThreeHosts = R"(
policy = "rs-2-1-1024k"
[hosts.meta-1]
address = "10.0.0.1"
roles = ["metaserver"]
[hosts.store-1]
address = "10.0.0.11"
names = ["store-1.example.org"]
rack = "rack-a"
disks = ["/srv/kintsugi/disk-1", "/srv/kintsugi/disk-2"]
[hosts.desk-1]
address = "10.0.0.50"
)";

TEST(HostsFile, GivesRolesToWhoHasDisksAndWhatIsLeftToTheMetaserver) {
  const auto hosts = HostsFile::parse(kThreeHosts, "hosts.toml");
  ASSERT_TRUE(hosts) << hosts.error();
  ASSERT_EQ(hosts->hosts.size(), 3u);
  EXPECT_EQ(hosts->hosts[0].roles,
            (std::set{HostRole::kMetaserver, HostRole::kRepairManager, HostRole::kMonitor}));
  EXPECT_EQ(hosts->hosts[1].roles, (std::set{HostRole::kChunkserver}));
  EXPECT_EQ(hosts->hosts[2].roles, (std::set{HostRole::kClient}));
  EXPECT_EQ(hosts->with(HostRole::kMonitor).name, "meta-1");
  EXPECT_THAT(certified_hosts(hosts->hosts[1]), ::testing::ElementsAre("10.0.0.11", "store-1.example.org"));
  EXPECT_TRUE(certified_hosts(hosts->hosts[2]).empty());
}

TEST(HostsFile, SaysTheLineAndWhatWasMeant) {
  const auto why = [](std::string text) {
    const auto hosts = HostsFile::parse(text, "hosts.toml");
    return hosts ? "it was read" : hosts.error().message();
  };
  const std::string meta = "[hosts.m]\naddress = \"10.0.0.1\"\nroles = [\"metaserver\"]\n";
  EXPECT_EQ(why(meta), "it was read");
  EXPECT_EQ(why("polcy = \"x\"\n" + meta), "hosts.toml:1: unknown key \"polcy\" (did you mean \"policy\"?)");
  EXPECT_EQ(why(meta + "disk = []\n"), "hosts.toml:4: unknown key \"disk\" (did you mean \"disks\"?)");
  EXPECT_EQ(why(meta + "[hosts.s]\naddress = \"10.0.0.2\"\nroles = [\"chunksever\"]\n"),
            "hosts.toml:6: unknown role \"chunksever\" (did you mean \"chunkserver\"?)");
  EXPECT_EQ(why(meta + "[hosts.s]\naddress = \"10.0.0.1\"\n"), "hosts.toml:4: s has the address of m");
  EXPECT_EQ(why(meta + "[hosts.s]\naddress = \"10.0.0.2\"\nnames = [\"10.0.0.1\"]\n"),
            "hosts.toml:4: s has the address of m");
  EXPECT_EQ(why(meta + "names = [\"M.example\", \"fd00::1\"]\n[hosts.s]\naddress = \"fd00:0::1\"\n"),
            "hosts.toml:5: s has the address of m");
  EXPECT_EQ(why(meta + "names = [\"M.example\"]\n[hosts.s]\naddress = \"m.Example\"\n"),
            "hosts.toml:5: s has the address of m");
  EXPECT_EQ(why(meta + "names = [\"10.0.0.1\"]\n"), "it was read");
  for (const char* name : {".", "..", ".git"})
    EXPECT_THAT(why(meta + "[hosts.\"" + name + "\"]\naddress = \"10.0.0.2\"\n"),
                HasSubstr("begins with a dot"));
  EXPECT_EQ(why(meta + "[hosts.s]\n"), "hosts.toml:4: s has no address");
  EXPECT_EQ(why(meta + "[hosts.s]\naddress = \"10.0.0.2\"\nroles = [\"chunkserver\"]\n"),
            "hosts.toml:4: s is a chunkserver without disks");
  EXPECT_THAT(why(meta + "[hosts.s]\naddress = \"127.0.0.1\"\n"),
              HasSubstr("hosts.toml:5: 127.0.0.1 is not an address"));
  EXPECT_THAT(why(meta + "[hosts.s]\naddress = \"10.0.0.2:9602\"\n"), HasSubstr("hosts.toml:5: "));
  EXPECT_THAT(why(meta + "[hosts.\"a b\"]\naddress = \"10.0.0.2\"\n"), HasSubstr("hosts.toml:4: "));
  EXPECT_EQ(why("[hosts.s]\naddress = \"10.0.0.2\"\n"),
            "hosts.toml: no hosts have the role \"metaserver\": a cluster has one");
  EXPECT_THAT(why("[hosts.s\n"), HasSubstr("hosts.toml:1: "));
  EXPECT_THAT(why("[.a]\n"), HasSubstr("hosts.toml"));
  EXPECT_THAT(why(std::string(20'000, 'a')), HasSubstr("a line of 20000 bytes"));
}

/// What the command prints and returns.
struct Outcome {
  int code;
  std::string out, error;
};

class ClusterInit : public ::testing::Test {
 protected:
  ClusterInit() {
    std::string name = ::testing::TempDir() + "/kintsugi_init_XXXXXX";
    directory = ::mkdtemp(name.data());
    out = directory + "/keys";
    describe(kThreeHosts);
  }
  ~ClusterInit() override { fs::remove_all(directory); }

  void describe(const std::string& text) { std::ofstream(directory + "/hosts.toml") << text; }
  Outcome init(std::vector<std::string> more = {}) {
    std::vector<std::string> words{"kintsugi", "cluster", "init", directory + "/hosts.toml", "--out", out};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> arguments;
    for (std::string& word : words)
      arguments.push_back(word.data());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = run(static_cast<int>(arguments.size()), arguments.data());
    std::string error = ::testing::internal::GetCapturedStderr();
    return {code, ::testing::internal::GetCapturedStdout(), std::move(error)};
  }
  std::string file(const std::string& host, const std::string& name) const {
    return out + "/hosts/" + host + "/" + name;
  }
  static mode_t mode(const std::string& path) {
    struct stat info{};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 0777;
  }
  auto identity(const std::string& host) const {
    return runtime::TlsIdentity::load(
        {file(host, "tls/host.crt"), file(host, "tls/host.key"), file(host, "tls/authority.crt")});
  }

  std::string directory, out;
};

TEST_F(ClusterInit, MakesKeysThatWorkAndSettingsThatDaemonsUnderstand) {
  const Outcome made = init();
  ASSERT_EQ(made.code, 0) << made.error;
  EXPECT_THAT(made.out, HasSubstr("The files of 3 hosts: copy"));
  EXPECT_THAT(made.out, HasSubstr("need 3 chunkservers, and there is 1"));
  const auto now = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  const auto store = identity("store-1"), desk = identity("desk-1");
  ASSERT_TRUE(store) << store.error();
  ASSERT_TRUE(desk) << desk.error();
  EXPECT_EQ((*store)->why_not_valid(now), "");
  EXPECT_EQ((*store)->why_not_for("10.0.0.11"), "");
  EXPECT_EQ((*store)->why_not_for("store-1.example.org"), "");
  EXPECT_THAT((*store)->why_not_for("10.0.0.1"), HasSubstr("is not for 10.0.0.1"));
  EXPECT_THAT((*desk)->why_not_for("10.0.0.50"), HasSubstr("is a client's"));
  EXPECT_TRUE(rpc::Secret::load(file("store-1", "secret")));
  EXPECT_EQ(read_file(file("store-1", "secret")).value(), read_file(out + "/secret").value());
  for (const std::string& secret :
       {out + "/authority.key", out + "/secret", file("store-1", "tls/host.key"), file("store-1", "secret")})
    EXPECT_EQ(mode(secret), 0600) << secret;
  EXPECT_EQ(mode(out), 0700);
  EXPECT_FALSE(fs::exists(file("store-1", "authority.key"))) << "what signs stays with the operator";
  const auto settings = DaemonSettings::parse(read_file(file("store-1", "chunkserver-1.toml")).value());
  ASSERT_TRUE(settings) << settings.error();
  EXPECT_EQ(settings->text("listen"), "10.0.0.11:9602");
  EXPECT_EQ(settings->text("metaserver"), "10.0.0.1:9600");
  EXPECT_EQ(settings->text("rack"), "rack-a");
  EXPECT_EQ(settings->text("tls.key"), "/etc/kintsugi/tls/host.key");
  EXPECT_THAT(settings->list("disks"),
              ::testing::ElementsAre("/srv/kintsugi/disk-1", "/srv/kintsugi/disk-2"));
  for (const char* name : {"metaserver.toml", "repair-manager.toml", "monitor.toml", "mount.toml", "env"})
    EXPECT_TRUE(fs::exists(file("meta-1", name))) << name;
  EXPECT_FALSE(fs::exists(file("desk-1", "chunkserver-1.toml")));
}

TEST_F(ClusterInit, GivesNoSecretToAHostThatOnlyUsesTheCluster) {
  const Outcome made = init();
  ASSERT_EQ(made.code, 0) << made.error;
  const std::string secret = read_file(out + "/secret").value();
  for (const auto& each : fs::recursive_directory_iterator(out + "/hosts/desk-1"))
    if (each.is_regular_file())
      EXPECT_THAT(read_file(each.path()).value(), ::testing::Not(HasSubstr(secret.substr(0, 64))))
          << each.path();
  const auto mount = DaemonSettings::parse(read_file(file("desk-1", "mount.toml")).value());
  ASSERT_TRUE(mount) << mount.error();
  EXPECT_EQ(mount->text("token_file"), "/etc/kintsugi/token");
  EXPECT_EQ(mount->text("secret_file"), "");
  const std::string variables = read_file(file("desk-1", "env")).value();
  EXPECT_THAT(variables, HasSubstr("export KINTSUGI_TOKEN_FILE=/etc/kintsugi/token"));
  EXPECT_THAT(variables, ::testing::Not(HasSubstr("KINTSUGI_SECRET_FILE")));
  EXPECT_THAT(made.out, HasSubstr("kintsugi token create desk-1"));
  EXPECT_THAT(made.out, ::testing::Not(HasSubstr("token create store-1")));
  EXPECT_THAT(read_file(file("store-1", "mount.toml")).value(), HasSubstr("secret_file"));
}

TEST_F(ClusterInit, NeverMakesASecondAuthorityInPlaceOfTheFirst) {
  ASSERT_EQ(init().code, 0);
  const std::string authority = read_file(out + "/authority.key").value();
  const Outcome again = init();
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.error, HasSubstr("--add makes the files of hosts that are new"));
  EXPECT_EQ(read_file(out + "/authority.key").value(), authority);
}

TEST_F(ClusterInit, AddsAHostWithTheSameAuthorityAndLeavesTheOthersAlone) {
  ASSERT_EQ(init().code, 0);
  const std::string before = read_file(file("store-1", "tls/host.crt")).value();
  describe(std::string(kThreeHosts) + "[hosts.store-2]\naddress = \"10.0.0.12\"\ndisks = [\"/data\"]\n");
  const Outcome added = init({"--add", "--json"});
  ASSERT_EQ(added.code, 0) << added.error;
  EXPECT_THAT(added.out, HasSubstr("\"store-2\""));
  EXPECT_THAT(added.out, ::testing::Not(HasSubstr("\"store-1\"")));
  EXPECT_EQ(read_file(file("store-1", "tls/host.crt")).value(), before);
  EXPECT_EQ(read_file(file("store-2", "tls/authority.crt")).value(),
            read_file(file("store-1", "tls/authority.crt")).value());
  EXPECT_TRUE(identity("store-2"));
}

TEST_F(ClusterInit, RenewsCertificatesAndNothingElse) {
  ASSERT_EQ(init().code, 0);
  const std::string certificate = read_file(file("store-1", "tls/host.crt")).value();
  std::ofstream(file("store-1", "chunkserver-1.toml"), std::ios::app) << "# changed by its owner\n";
  ASSERT_EQ(init({"--renew"}).code, 0);
  EXPECT_NE(read_file(file("store-1", "tls/host.crt")).value(), certificate);
  EXPECT_TRUE(identity("store-1"));
  EXPECT_THAT(read_file(file("store-1", "chunkserver-1.toml")).value(), HasSubstr("# changed by its owner"));
}

TEST_F(ClusterInit, RevokesAHostForAllOthersAlsoForThoseThatAreAddedLater) {
  ASSERT_EQ(init().code, 0);
  const Outcome revoked = init({"--revoke", "desk-1"});
  ASSERT_EQ(revoked.code, 0) << revoked.error;
  EXPECT_FALSE(fs::exists(file("desk-1", "")));
  EXPECT_THAT(read_file(file("store-1", "tls/authority.crt")).value(), HasSubstr("BEGIN X509 CRL"));
  EXPECT_TRUE(identity("store-1"));
  ASSERT_EQ(init({"--add"}).code, 0);
  EXPECT_TRUE(identity("desk-1")) << "its new certificate is another one";
  EXPECT_THAT(read_file(file("desk-1", "tls/authority.crt")).value(), HasSubstr("BEGIN X509 CRL"));
  EXPECT_EQ(init({"--revoke", "nobody"}).code, 1);
  EXPECT_EQ(init({"--revoke", "../hosts/desk-1"}).code, 1);
}

TEST_F(ClusterInit, CanRepeatARevocationThatFailed) {
  ASSERT_EQ(init().code, 0);
  fs::remove_all(file("store-1", "tls"));
  std::ofstream(file("store-1", "tls")) << "in the way\n";
  EXPECT_EQ(init({"--revoke", "desk-1"}).code, 1);
  EXPECT_TRUE(fs::exists(file("desk-1", "tls/host.crt")));
  fs::remove_all(file("store-1", ""));
  std::ofstream(out + "/hosts/.DS_Store") << "of no host\n";
  const Outcome again = init({"--revoke", "desk-1"});
  EXPECT_EQ(again.code, 0) << again.error;
  EXPECT_THAT(read_file(file("meta-1", "tls/authority.crt")).value(), HasSubstr("BEGIN X509 CRL"));
}

TEST_F(ClusterInit, RemovesNothingButTheHostThatIsRevoked) {
  ASSERT_EQ(init().code, 0);
  fs::copy(file("desk-1", "tls"), out + "/tls");
  for (const char* name : {"..", ".", "", "../hosts/desk-1"}) {
    EXPECT_EQ(init({"--revoke", name}).code, 1) << name;
    EXPECT_TRUE(fs::exists(file("desk-1", "tls/host.crt")) && fs::exists(out + "/authority.key")) << name;
  }
}

TEST_F(ClusterInit, LeavesAHostAloneWhoseNameBeginsWithThatOfANewOne) {
  const std::string
      meta = "policy = \"replication-1-64k\"\n[hosts.m]\naddress = \"10.0.0.1\"\nroles = [\"metaserver\"]\n",
      first = meta + "[hosts.\"s.new\"]\naddress = \"10.0.0.2\"\ndisks = [\"/d\"]\n";
  describe(first);
  ASSERT_EQ(init().code, 0);
  describe(first + "[hosts.s]\naddress = \"10.0.0.3\"\ndisks = [\"/d\"]\n");
  ASSERT_EQ(init({"--add"}).code, 0);
  EXPECT_TRUE(identity("s.new"));
  EXPECT_TRUE(identity("s"));
}

TEST_F(ClusterInit, LeavesNothingBehindWhenItFails) {
  describe(std::string(kThreeHosts) + "[hosts." + std::string(64, 'x') + "]\naddress = \"10.0.0.13\"\n");
  ASSERT_EQ(init().code, 0) << "a name may have 64 bytes";
  fs::remove_all(out);
  std::ofstream(out) << "a file\n";
  EXPECT_EQ(init().code, 1);
  fs::remove(out);
  // A directory that it cannot remove, as one that is mounted, is no reason to end otherwise than with a message.
  describe("cluster = \"" + std::string(65, 'x') + "\"\n" + kThreeHosts);
  const std::string before = fs::current_path();
  fs::create_directory(out);
  fs::current_path(out);
  out = ".";
  const Outcome here = init();
  fs::current_path(before);
  out = directory + "/keys";
  EXPECT_EQ(here.code, 1);
  EXPECT_THAT(here.error, HasSubstr("is no name for a certificate"));
  fs::remove(out);
  std::ofstream(out).flush();
  EXPECT_EQ(init().code, 1);
  EXPECT_TRUE(fs::exists(out)) << "an empty file of somebody's";
  fs::remove(out);
  EXPECT_EQ(init({"--add"}).code, 1);
  EXPECT_FALSE(fs::exists(out));
}

}  // namespace
}  // namespace kintsugi::cli
