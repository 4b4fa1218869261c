// What `kintsugi key` makes of what daemons say of their secrets.
#include "client/cli/secret_rotation.h"

#include <gmock/gmock.h>

namespace kintsugi::cli {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

constexpr uint64_t kOld = 1, kNew = 2;

DaemonSecrets daemon(const std::string& name, double in_use_seconds) {
  DaemonSecrets daemon{.name = name, .address = "10.0.0.1:1"};
  daemon.has.set_in_use(kNew);
  daemon.has.set_other(kOld);
  daemon.has.set_other_is(proto::SecretStatusResponse::FORMER);
  daemon.has.set_in_use_seconds(in_use_seconds);
  return daemon;
}

void add_use(DaemonSecrets& daemon, uint64_t secret, const std::string& who, double idle_seconds) {
  proto::SecretUse& use = *daemon.has.add_uses();
  use.set_secret(secret);
  use.set_who(who);
  use.set_connections(2);
  use.set_idle_seconds(idle_seconds);
}

TEST(SecretRotation, UsersOfTheOldSecretAreThoseWhoAskedSinceAllDaemonsHadTheNewOne) {
  // The last daemon took the new file a hundred seconds ago.
  std::vector<DaemonSecrets> daemons{daemon("metaserver", 500), daemon("chunkserver-1", 100)};
  add_use(daemons[0], kOld, "the secret at 10.0.0.50", 30);
  add_use(daemons[1], kOld, "the secret at 10.0.0.50", 3);
  add_use(daemons[0], kOld, "the token backup at 10.0.0.51", 90);
  add_use(daemons[0], kOld, "the secret at 10.0.0.1", 99);  // the daemon itself, before it took the file
  add_use(daemons[0], kOld, "the secret at 10.0.0.2", 300);
  add_use(daemons[0], 3, "the secret at 10.0.0.3", 1);
  const std::vector<SecretUser> users = users_of(daemons, kOld);
  ASSERT_EQ(users.size(), 2u);
  EXPECT_EQ(users[0].who, "the secret at 10.0.0.50");
  EXPECT_EQ(users[0].connections, 4u);
  EXPECT_EQ(users[0].idle_seconds, 3);
  EXPECT_EQ(users[1].who, "the token backup at 10.0.0.51");
  // Just after it took the file nothing is known yet.
  daemons[1].has.set_in_use_seconds(2);
  EXPECT_TRUE(users_of(daemons, kOld).empty());
}

TEST(SecretRotation, ADaemonThatCannotBeAskedComesWithWhatToDo) {
  DaemonSecrets gone = daemon("chunkserver-1", 1);
  gone.asked = {Code::kUnavailable, "cannot connect to 10.0.0.1:1: connection refused"};
  EXPECT_THAT(why_not_asked(gone), HasSubstr("connection refused; start it again"));
  gone.away = true;
  EXPECT_THAT(why_not_asked(gone),
              HasSubstr("start it, or remove it (kintsugi server remove), or leave it out"));
  gone.asked = {Code::kPermissionDenied, "10.0.0.1:1: cluster secret does not match"};
  EXPECT_THAT(why_not_asked(gone), EndsWith("give it the file that the metaserver has, and SIGHUP"));
}

}  // namespace
}  // namespace kintsugi::cli
