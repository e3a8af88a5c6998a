//! What would become of an item, as one caller sees it.

use windrow_core::ItemId;
use windrow_core::command::Command;

use super::Scoped;
use crate::auth::Denied;

impl Scoped {
    /// Why a command about an item would be refused.
    pub(crate) async fn forecast(&self, item: ItemId, command: &Command) -> Result<(), Denied> {
        self.must_be_there(item).await?;
        Ok(self.queue.forecast(command).await?)
    }
}
