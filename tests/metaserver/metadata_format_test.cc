#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

TEST(MetadataFormat, MetadataOfAnotherFormatAreRefusedAndBothFormatsAreNamed) {
  for (uint32_t format : {2u, 4u}) {
    MetaServerRig rig(1, 0);
    rig.simulation.run(rig.meta->stop());
    Transaction transaction(*rig.store);
    auto cluster = *transaction.get_message<proto::StoredCluster>(keys::cluster());
    cluster.set_format_version(format);
    transaction.put_message(keys::cluster(), cluster);
    KINTSUGI_ASSERT_OK(rig.simulation.run(rig.store->commit(transaction.take())));

    MetaServer next(*rig.meta_runtime, {.listen = {"10.0.0.1", 7001}}, test_secret(), *rig.store);
    const Status started = rig.simulation.run(next.start());
    EXPECT_EQ(started.code(), Code::kCorrupt);
    EXPECT_EQ(started.message(),
              fmt::format("the metadata has format {}, this metaserver reads format 3", format));
    rig.simulation.run(next.stop());
  }
}

}  // namespace
}  // namespace kintsugi::metaserver
