(* Against.v does in the step what Items.v is about: of what it remembers of a cohort, whoever knows up to d windows and m rows
   of somebody is left with enough people. *)
From mathcomp Require Import all_ssreflect.
From kanonflow Require Import Step Against.
From kanonflow Require Items.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Left.
Variables (person : finType) (payload : eqType) (least d m : nat) (look : row payload -> nat).
Implicit Types (A B O : {set person}) (W R : seq {set person}).
Notation people := (enum person).
Notation goes := (goes people least d m).

(* A set of people in canonical order. *)
Definition listed A : seq person := [seq p <- people | p \in A].

Lemma in_listed A p : (p \in listed A) = (p \in A).
Proof. by rewrite mem_filter mem_enum andbT. Qed.

Lemma meet_listed A B : meet people (listed A) (listed B) = listed (A :&: B).
Proof. by apply: eq_filter => p; rewrite !in_listed inE. Qed.

Lemma join_listed A B : join people (listed A) (listed B) = listed (A :|: B).
Proof. by apply: eq_filter => p; rewrite !in_listed inE. Qed.

Lemma people_listed : people = listed setT.
Proof. by apply/esym/all_filterP/allP => p _; rewrite inE. Qed.

Lemma enough_listed A : enough people least (listed A) = Items.enough least A.
Proof.
rewrite /enough /Items.enough -cards_eq0.
have -> // : count (mem (listed A)) people = #|A|.
by rewrite cardE enumT -enumT -size_filter; congr size; rewrite enumT; apply: eq_filter => p; exact: in_listed.
Qed.

Lemma known_met W n w : Items.known W n w -> listed (Items.have_all w) \in meets people n (map listed W).
Proof.
elim: n w => [|n IH] [|x w] //=.
- by move=> _; rewrite /Items.have_all big_nil inE -people_listed.
- by move=> _; rewrite mem_cat IH.
case/andP=> short /= /andP[xW wW]; rewrite mem_cat Items.have_all_cons -meet_listed; apply/orP; right.
by apply: allpairs_f; [exact: map_f | apply: IH; rewrite /Items.known wW andbT].
Qed.

Lemma fits_listed a b W R A :
  fits people least a b (map listed W) (map listed R) (listed A) -> Items.fits least a b W R A.
Proof.
move=> /allP tried w r /known_met w_known /known_met r_known.
by have /allP/(_ _ r_known) := tried _ w_known; rewrite !meet_listed enough_listed.
Qed.

(* The rule on sets. *)
Definition lets_out W R O A := goes (map listed W) (map listed R) (listed O) (listed A).

Lemma lets_out_sound : Items.sound least d m lets_out.
Proof.
move=> W R O A /andP[as_row as_window]; split=> some.
  by apply: fits_listed; move: as_row; rewrite eqn0Ngt some.
by apply: fits_listed; move: as_window; rewrite eqn0Ngt some join_listed.
Qed.

(* What is remembered of a cohort is safe. *)
Definition kept_safe (b : book person) :=
  exists W R, [/\ b.1.1 = map listed W, b.1.2 = map listed R & Items.safe least d m W R].

Lemma one_kept has_item W e R O gone l :
  (forall x, has_item x = listed [set p | p \in has_item x]) -> Items.safe_so_far least d m W R O ->
  exists R' O' gone', one people least d m has_item (map listed W) e (map listed R, listed O, gone) l =
    (map listed R', listed O', gone') /\ Items.safe_so_far least d m W R' O'.
Proof.
move=> hi so_far; rewrite /one; case: ifP => _; first by exists R, O, gone.
rewrite hi; set I := [set p | _].
have := @Items.one_safe _ least d m lets_out W (R, O) I lets_out_sound so_far.
rewrite /Items.one /lets_out /=; case: ifP => _ safe_now; last by exists R, O, ((e, l) :: gone).
by rewrite join_listed; exists (if 0 < m then I :: R else R), (O :|: I), gone; split=> //; case: ifP.
Qed.

Arguments one : simpl never.
Lemma window_kept has_item looks b e :
  (forall x, has_item x = listed [set p | p \in has_item x]) -> kept_safe b ->
  kept_safe (window people least d m has_item looks b e).
Proof.
move=> hi; case: b => [[windows rows] gone] [W [R [/= -> -> safe_now]]]; rewrite /window.
have nobody : [::] = listed set0.
  by rewrite /listed (eq_filter (a2 := pred0)) ?filter_pred0 // => p; rewrite inE.
have : Items.safe_so_far least d m W R set0.
  by split=> // _ w r _ _; rewrite set0I /Items.enough eqxx.
rewrite {1}nobody; elim: (looks e) R set0 gone {nobody safe_now} => [|l ls IH] R O gone so_far /=.
  by exists (O :: W), R; split=> //; exact: Items.window_done.
by have [R' [O' [gone' [-> so_far']]]] := one_kept e gone l hi so_far; exact: IH.
Qed.

Lemma after_kept b h here c : kept_safe b -> kept_safe (after_all people least d m look b h here c).
Proof.
rewrite /after_all; elim: (ends_of _) b => //= e es IH b safe_now; apply: IH; apply: window_kept safe_now => x.
by apply: eq_in_filter => p pin; rewrite inE mem_filter pin andbT.
Qed.

(* --- What it remembers is what is out. --- *)

Lemma one_out has_item windows e rows out gone l :
  let s := one people least d m has_item windows e (rows, out, gone) l in
  [/\ forall x, x != (e, l) -> (x \in s.2) = (x \in gone),
      forall p, (p \in s.1.2) = (p \in out) || ((e, l) \notin s.2) && (p \in has_item (e, l)),
      {subset rows <= s.1.1} & 0 < m -> (e, l) \notin s.2 -> has_item (e, l) \in s.1.1].
Proof.
rewrite /one; case: ifP => gone_already /=.
  by split=> // [p|]; rewrite gone_already ?orbF.
case: ifP => _ /=; last first.
  split=> // [x other|p|_]; first by rewrite inE (negPf other).
    by rewrite mem_head /= orbF.
  by rewrite mem_head.
split=> // [p|x xr|some _]; last by rewrite some mem_head.
  by rewrite gone_already /= mem_filter mem_enum andbT.
by case: ifP => // _; rewrite inE xr orbT.
Qed.

Lemma looks_out has_item windows e ls rows out gone : uniq ls ->
  let s := foldl (one people least d m has_item windows e) (rows, out, gone) ls in
  [/\ forall x, (x.1 != e) || (x.2 \notin ls) -> (x \in s.2) = (x \in gone),
      forall p, (p \in s.1.2) = (p \in out) || has (fun l => ((e, l) \notin s.2) && (p \in has_item (e, l))) ls,
      {subset rows <= s.1.1} & 0 < m -> forall l, l \in ls -> (e, l) \notin s.2 -> has_item (e, l) \in s.1.1].
Proof.
elim: ls rows out gone => [|l ls IH] rows out gone /=; first by split=> // p; rewrite orbF.
case/andP=> nl uls; have := one_out has_item windows e rows out gone l.
case: (one _ _ _ _ _ _ _ _ _) => [[rows1 out1] gone1] /= [F1 F2 F3 F4].
have [G1 G2 G3 G4] := IH rows1 out1 gone1 uls.
have same : ((e, l) \in (foldl (one people least d m has_item windows e) (rows1, out1, gone1) ls).2) = ((e, l) \in gone1).
  by apply: G1; rewrite /= nl orbT.
split=> [x|p|x /F3 /G3 //|some l']; last 1 first.
- rewrite inE => /orP[/eqP -> |]; last exact: G4.
  by rewrite same => ng; apply: G3; exact: F4.
- rewrite inE negb_or => other; rewrite G1; last by case/orP: other => [-> //|/andP[_ ->]]; rewrite orbT.
  by apply: F1; case: x other => a b /=; apply: contraTneq => -[-> ->]; rewrite !eqxx.
- by rewrite G2 F2 same -orbA.
Qed.

Lemma window_out has_item looks b e : uniq (looks e) ->
  let b' := window people least d m has_item looks b e in
  [/\ forall x, x.1 != e -> (x \in b'.2) = (x \in b.2), {subset b.1.1 <= b'.1.1}, {subset b.1.2 <= b'.1.2},
      exists2 o, o \in b'.1.1 & forall p, (p \in o) = has (fun l => ((e, l) \notin b'.2) && (p \in has_item (e, l))) (looks e) &
      0 < m -> forall l, l \in looks e -> (e, l) \notin b'.2 -> has_item (e, l) \in b'.1.2].
Proof.
case: b => [[windows rows] gone] uls; rewrite /window.
have := looks_out has_item windows e rows [::] gone uls.
case: (foldl _ _ _) => [[rows1 out1] gone1] /= [F1 F2 F3 F4]; split=> //.
- by move=> x other; apply: F1; rewrite other.
- by move=> x xw; rewrite inE xw orbT.
- by exists out1; [exact: mem_head | move=> p; rewrite F2].
Qed.

Lemma after_out has_item looks es b : uniq es -> (forall e, uniq (looks e)) ->
  let b' := foldl (window people least d m has_item looks) b es in
  [/\ forall x, x.1 \notin es -> (x \in b'.2) = (x \in b.2), {subset b.1.1 <= b'.1.1}, {subset b.1.2 <= b'.1.2},
      forall e, e \in es -> exists2 o, o \in b'.1.1 &
        forall p, (p \in o) = has (fun l => ((e, l) \notin b'.2) && (p \in has_item (e, l))) (looks e) &
      0 < m -> forall e l, e \in es -> l \in looks e -> (e, l) \notin b'.2 -> has_item (e, l) \in b'.1.2].
Proof.
move=> + ul; elim: es b => [|e es IH] b /=; first by split.
case/andP=> ne ues.
have [F1 F2 F3 F4 F5] := window_out has_item b (ul e).
have [G1 G2 G3 G4 G5] := IH (window people least d m has_item looks b e) ues.
have same l : ((e, l) \in (foldl (window people least d m has_item looks) (window people least d m has_item looks b e) es).2) =
              ((e, l) \in (window people least d m has_item looks b e).2) by apply: G1.
split=> [x|x /F2/G2 //|x /F3/G3 //|e'|some e' l].
- by rewrite inE negb_or => /andP[other nx]; rewrite G1 // F1.
- rewrite inE => /orP[/eqP -> |]; last exact: G4.
  by have [o ob oe] := F4; exists o; [exact: G2 | move=> p; rewrite oe; apply: eq_has => l; rewrite same].
- rewrite inE => /orP[/eqP -> lin|]; last exact: G5.
  by rewrite same => ng; apply: G3; exact: F5.
Qed.

Lemma in_rows (h : person -> option cohort) (f : person -> seq (row payload)) c q r :
  h q = Some c -> r \in f q -> r \in of_cohort people h f c.
Proof. by move=> hq rf; apply/flatten_mapP; exists q; rewrite ?mem_enum // hq eqxx. Qed.

Lemma after_all_out b0 (h : person -> option cohort) (f : person -> seq (row payload)) c :
  let b := after_all people least d m look b0 h f c in
  let out_as (P : pred (row payload)) q := (h q == Some c) && has (fun r => P r && ((r.1, look r) \notin b.2)) (f q) in
  [/\ {subset b0.1.1 <= b.1.1}, {subset b0.1.2 <= b.1.2},
      forall e p, out_as (fun r => r.1 == e) p -> exists2 o, o \in b.1.1 & forall q, (q \in o) = out_as (fun r => r.1 == e) q &
      0 < m -> forall x p, out_as (fun r => (r.1, look r) == x) p ->
        exists2 o, o \in b.1.2 & forall q, (q \in o) = out_as (fun r => (r.1, look r) == x) q].
Proof.
move=> b out_as.
have ul e : uniq (looks_of look (of_cohort people h f c) e) by rewrite sort_uniq undup_uniq.
have ue : uniq (ends_of (of_cohort people h f c)) by rewrite sort_uniq undup_uniq.
have [_ F2 F3 F4 F5] := after_out (who people look h f c) b0 ue ul; rewrite -/(after_all _ _ _ _ _ _ _ _ _) -/b in F2 F3 F4 F5.
have here q r : h q = Some c -> r \in f q ->
    r.1 \in ends_of (of_cohort people h f c) /\ look r \in looks_of look (of_cohort people h f c) r.1.
  move=> hq rf; have rin := in_rows hq rf; split; first by rewrite mem_sort mem_undup map_f.
  by rewrite mem_sort mem_undup; apply/mapP; exists r; rewrite // mem_filter eqxx.
split=> // [e p /andP[/eqP hp /hasP[r rf /andP[/eqP re _]]]|some x p /andP[/eqP hp /hasP[r rf /andP[/eqP rx stays]]]].
  have [ein _] := here _ _ hp rf; rewrite re in ein; have [o ob oq] := F4 e ein; exists o => // q; rewrite oq.
  apply/hasP/andP => [[l _ /andP[ng]]|[/eqP hq /hasP[r' rf' /andP[/eqP re' stays]]]].
    rewrite mem_filter => /andP[/andP[hq /hasP[r' rf' /eqP rx]] _]; split=> //.
    by apply/hasP; exists r' => //; rewrite rx ng andbT; case: rx => ->.
  have [_ lin] := here _ _ hq rf'; rewrite re' in lin; exists (look r') => //; rewrite -{1}re' stays mem_filter mem_enum hq eqxx !andbT.
  by apply/hasP; exists r'; rewrite // re'.
have [ein lin] := here _ _ hp rf; exists (who people look h f c x).
  by rewrite -rx; apply: F5.
move=> q; rewrite mem_filter mem_enum andbT /out_as; congr andb; apply: eq_has => r' /=.
by case: eqP => //= ->; rewrite -rx.
Qed.

Variables (k cohort_size : nat) (intake : nat -> nat) (delay : nat) (ends : nat -> nat) (closing : pred nat).
Variables (found : nat -> seq person -> person -> nat) (merge : nat -> seq (option cohort) -> groups -> counts -> cohort -> nat).
Notation drop := (against people least d m look).
Notation state_at := (state_at people k cohort_size intake delay ends closing found merge drop).

Lemma books_safe w n c : least <= #|person| -> kept_safe (recalled (state_at w n) c).
Proof.
move=> large; elim: n => [|n IH] /=.
  exists [::], [::]; split=> // v r /andP[_ none] /andP[_ none'].
  have empty some : all (fun item : {set person} => item \in [::]) some -> some = [::] by case: some.
  by rewrite (empty _ none) (empty _ none') /Items.have_all !big_nil !setTI /Items.enough cardsT large orbT.
rewrite /step; case: ifP => // _ /=; case: ifP => // _; exact: after_kept.
Qed.
Notation result_at := (result_at people k cohort_size intake delay ends closing found merge drop).

(* Who of a cohort had rows out in a step, of a window by its end, and of a look besides. *)
Definition out_of w c n (P : pred (row payload)) :=
  [set q | (home (state_at w n) q == Some c) && has (fun r => P r.2) (out (result_at w n) q)].
Definition had_window w c (x : nat * nat) := out_of w c x.1 (fun r => r.1 == x.2).
Definition had_row w c (x : nat * name) := out_of w c x.1 (fun r => (r.1, look r) == x.2).

Section Once.
Variables (w : person -> trail payload) (n : nat) (c : cohort).
Let s := state_at w n.
Let new := arrives w n.+1.
Let h := tried people k cohort_size intake delay ends closing found s n.+1 new.
Let f := asked people k cohort_size intake delay ends closing found s n.+1 new.
Let happens := acts people delay ends closing s n.+1 new && released people k cohort_size intake delay ends closing found s n.+1 new.

Lemma recalled_then :
  recalled (state_at w n.+1) c = if happens then after_all people least d m look (recalled s c) h f c else recalled s c.
Proof. by rewrite /happens /= -/s -/new /step; case: ifP => //= _; case: ifP. Qed.

Lemma out_then P q : (q \in out_of w c n.+1 P) = happens && ((h q == Some c) &&
  has (fun r => P r && ((r.1, look r) \notin (after_all people least d m look (recalled s c) h f c).2)) (f q)).
Proof.
rewrite inE /happens /result_at /= -/s -/new /step; case: ifP => /= _; last by rewrite andbF.
rewrite /Step.goes /home_now; case: ifP => /= _; last by rewrite andbF.
rewrite -/h; case: eqP => //= hq; have kq : knows h q by rewrite /knows hq.
have -> : f q = here delay ends closing s n.+1 new q by rewrite /f /asked -/h [knows _ q]kq.
rewrite [knows _ q]kq has_map /left has_count count_filter -has_count.
by apply: eq_has => r /=; rewrite -/h hq.
Qed.

Lemma step_out : let b := recalled (state_at w n.+1) c in
  [/\ {subset (recalled s c).1.1 <= b.1.1}, {subset (recalled s c).1.2 <= b.1.2},
      forall e p, p \in had_window w c (n.+1, e) -> exists2 o, o \in b.1.1 & o =i had_window w c (n.+1, e) &
      0 < m -> forall x p, p \in had_row w c (n.+1, x) -> exists2 o, o \in b.1.2 & o =i had_row w c (n.+1, x)].
Proof.
rewrite recalled_then /had_window /had_row /=; case ha: happens; last first.
  by split=> // [e p|_ x p]; rewrite out_then ha.
have [F1 F2 F3 F4] := after_all_out (recalled s c) h f c.
split=> // [e p|some x p].
  by rewrite out_then ha => /F3[o ob oq]; exists o => // q; rewrite oq out_then ha.
by rewrite out_then ha => /(F4 some)[o ob oq]; exists o => // q; rewrite oq out_then ha.
Qed.
End Once.

(* Of a cohort, over all steps so far: what is out is among what is remembered. *)
Lemma remembered w N c n : 0 < n <= N -> let b := recalled (state_at w N) c in
  (forall e p, p \in had_window w c (n, e) -> exists2 o, o \in b.1.1 & o =i had_window w c (n, e)) /\
  (0 < m -> forall x p, p \in had_row w c (n, x) -> exists2 o, o \in b.1.2 & o =i had_row w c (n, x)).
Proof.
elim: N => [|N IH]; first by case: n.
have [F1 F2 F3 F4] := step_out w N c.
case/andP=> n0; rewrite leq_eqVlt => /orP[/eqP -> //|le].
have [|G1 G2] := IH; first by rewrite n0.
split=> [e p /G1[o /F1 ob oq]|some x p /(G2 some)[o /F2 ob oq]]; by exists o.
Qed.

(* Of everything that is out after so many steps: whoever knows that somebody p of a cohort has rows in up to d windows that
   went out, and up to m rows by their window and look, is left with enough people of the cohort. *)
Theorem left_in_step w N c windows rows p : least <= #|person| ->
  all (fun x => 0 < x.1 <= N) windows -> all (fun x => 0 < x.1 <= N) rows -> size windows <= d -> size rows <= m ->
  let left := Items.have_all (map (had_window w c) windows) :&: Items.have_all (map (had_row w c) rows) in
  p \in left -> least <= #|left|.
Proof.
move=> large win_in row_in win_few row_few left_; rewrite inE => /andP[p_win p_row].
have [W [R [eW eR safe_now]]] := books_safe w N c large.
have has_all (T : Type) (some : seq T) (of_ : T -> {set person}) :
    p \in Items.have_all (map of_ some) -> all (fun x => p \in of_ x) some.
  by elim: some => //= x some IH; rewrite Items.have_all_cons inE => /andP[-> /IH].
have is_set o S A : o \in map listed S -> o =i A -> A \in S.
  by case/mapP=> B BS -> same; have <- // : B = A by apply/setP => q; rewrite -in_listed same.
have w_known : Items.known W d (map (had_window w c) windows).
  rewrite /Items.known size_map win_few all_map; apply/allP => -[n e] xin /=.
  have [G _] := remembered w c (allP win_in _ xin).
  by have [o] := G e p (allP (has_all _ _ _ p_win) _ xin); rewrite eW; exact: is_set.
have r_known : Items.known R m (map (had_row w c) rows).
  rewrite /Items.known size_map row_few all_map; apply/allP => -[n x] xin /=.
  have some : 0 < m by case: (rows) xin row_few => // ? ?; case: (m).
  have [_ G] := remembered w c (allP row_in _ xin).
  by have [o] := G some x p (allP (has_all _ _ _ p_row) _ xin); rewrite eR; exact: is_set.
have := safe_now _ _ w_known r_known; rewrite setTI => /orP[/eqP nobody|//].
by have := in_set0 p; rewrite -nobody inE p_win p_row.
Qed.
End Left.
Print Assumptions left_in_step.
